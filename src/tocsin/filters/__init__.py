"""Filters: conditions on one record, such as `symbol = 'YHOO' AND volume > 300000` (pure).

`language.parse` makes a `Filter` of a text. `rows.RowEncoder` makes rows of records; filters and indexes look at rows.
`covering.covers` compares two filters, `covering_set.CoveringSet` keeps the widest of many, and `index.FilterIndex`
finds those that a row matches. The covering set and the index need numpy; the rest is part of the SDK.
"""
