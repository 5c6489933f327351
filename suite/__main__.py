"""`python -m suite`: the `suite` command."""

from suite.cli.app import main

if __name__ == "__main__":
    main()
