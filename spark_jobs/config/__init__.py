"""pipeline.yaml: its model, its value types, and the rules that it states.

Put here: reading and validating configuration. Not here: checks that ask a server or the lake (checks/).
"""
