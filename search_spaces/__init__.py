"""What to try, as data: one YAML an algorithm (published configurations and where ranges differ by
data set) and `studies/`. No code: `suite.studies.space` and `suite.studies.study` read these files.
"""
