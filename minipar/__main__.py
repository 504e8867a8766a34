"""`python -m minipar`: the command line, as torchrun starts it on every rank."""

from minipar.cli import app

if __name__ == "__main__":
    app(prog_name="minipar")
