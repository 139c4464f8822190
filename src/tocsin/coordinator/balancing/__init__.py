"""How load is kept even, one policy per file (pure): where newcomers are placed."""
