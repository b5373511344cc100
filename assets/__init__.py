"""The assets: nouns. What is kept in the lake, layer by layer, as Dagster shows it."""
