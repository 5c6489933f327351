"""Published against measured: numbers and statements of papers, judged by runs of the suite."""
