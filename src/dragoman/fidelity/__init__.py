"""What a run does beside what the paper says: choice by choice, measured on the modules and functions themselves.

Paper: none (measures what other modules do)
"""
