"""YAML and JSON files that know where their values are; amounts as people write them."""
