"""HTML pages: the self-contained report with its figures, the start page of `suite ui`, and results in notebooks."""
