"""`dragoman recipe`: the recipes there are, and what is in one.

Paper: 5, 6.1
"""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer

from dragoman.cli.options import Json, tell_of_compiling
from dragoman.cli.talk import say

app = typer.Typer(
    help="Recipes: list them, or show one as a file to change.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list")
def list_recipes(json: Json = False) -> None:
    """List the recipes that come with dragoman."""
    from dragoman.recipes.named import all_recipes
    from dragoman.recipes.systems import system_recipes

    recipes = [*all_recipes(), *system_recipes()]
    if json:
        typer.echo(json_format.dumps([recipe.model_dump() for recipe in recipes]))
        return
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        typer.echo(f"{recipe.name:{width}}  {recipe.description}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A recipe's name or .toml file.")],
    *,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Change a field; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Print a recipe as TOML, and how it stands to the paper.

    Example: dragoman recipe show tiny > mine.toml
    """
    from dragoman.fidelity.measure import measure
    from dragoman.recipes.named import read_recipe

    recipe = read_recipe(name).with_changes(set_ or [])
    tell_of_compiling()
    stands = measure(recipe)
    if json:
        differences = [str(difference) for difference in stands.differences]
        record = {"recipe": recipe.model_dump(), "standing": stands.banner(recipe.name)}
        typer.echo(json_format.dumps({**record, "differences": differences}))
        return
    typer.echo(recipe.to_toml(), nl=False)
    say(stands.banner(recipe.name))
    for difference in stands.differences:
        say(f"  {difference}")
