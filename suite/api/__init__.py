"""The Python interface: what the commands do, for scripts and notebooks, with typed results.

Bad input raises `trials.common.errors.UserError`, with the text that the command shows. Without a `tracking_uri`
that of MLFLOW_TRACKING_URI counts, as with the commands. See docs/python.md. `suite/__init__.py` lists the functions.
"""
