"""How load is kept even, one policy per file (pure): placement of newcomers, migration, shuffle."""
