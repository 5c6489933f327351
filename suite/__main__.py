"""Run the `suite` command by `python -m suite`."""

from suite.cli.app import main

if __name__ == "__main__":
    main()
