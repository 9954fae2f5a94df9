"""Readers of corpora in the format that each is published in, a file each.

A reader is `read(path, **options)`: it yields (fields, where), the fields of a
record by name and the record's place for messages. Its options are what
`config.source(options=...)` takes.
"""
