"""`python -m tocsin` is `tocsin`."""

from tocsin.cli.main import app

app()
