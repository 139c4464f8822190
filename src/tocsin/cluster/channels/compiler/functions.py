"""The functions a query may call: an allow-list.

Left out on purpose: functions that reach out of the query (`reflect`, `java_method`, `input_file_name`,
`current_user`), that differ when a run is repeated (`rand`, `uuid`, `now`), that can fail or stall a run at will
(`raise_error`, regular expressions), or that produce much from little (`repeat`, `sequence`, `space`). Functions that
take a function are left out for simplicity.
"""

from __future__ import annotations

import math

from sqlglot import exp

from tocsin.cluster.channels.compiler.dialect import function_name

#: Tocsin's own.
IS_NEW = "is_new"
DISTANCE = "distance"
WITHIN = "within"
OWN_ARGUMENTS = {IS_NEW: 1, DISTANCE: 4, WITHIN: 5}

#: Grouped as in the reference (docs/reference/statements.md); a test compares the two.
SCALAR_GROUPS: dict[str, str] = {
    "conditions": """
        coalesce equal_null if ifnull isnan isnotnull isnull nanvl nullif nvl nvl2
    """,
    "conversion": """
        bigint boolean date double float int string timestamp to_char to_date to_number to_timestamp
        try_to_date try_to_number try_to_timestamp typeof
    """,
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh bround cbrt ceil ceiling cos cosh cot degrees e exp expm1 floor
        greatest hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint round sign
        signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract width_bucket
        bit_count shiftleft shiftright
    """,
    "strings": """
        ascii bit_length btrim char char_length character_length chr concat concat_ws contains endswith find_in_set
        format_number get_json_object initcap instr lcase left len length levenshtein locate lower lpad ltrim mask
        octet_length overlay position replace reverse right rpad rtrim soundex split_part startswith substr substring
        substring_index translate trim ucase upper url_decode url_encode
    """,
    "dates": """
        add_months date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff
        datepart day dayname dayofmonth dayofweek dayofyear from_unixtime from_utc_timestamp hour last_day
        make_date make_timestamp minute month monthname months_between next_day quarter second timestamp_micros
        timestamp_millis timestamp_seconds to_unix_timestamp to_utc_timestamp trunc unix_date unix_micros unix_millis
        unix_seconds weekday weekofyear year
    """,
    "hashes": """
        base64 crc32 hash hex md5 sha sha1 sha2 xxhash64
    """,
    "arrays and structs": """
        array array_append array_compact array_contains array_distinct array_except array_intersect array_join
        array_max array_min array_position array_prepend array_remove array_size array_sort array_union
        arrays_overlap cardinality element_at get named_struct size slice sort_array struct
    """,
}

AGGREGATE_NAMES = """
    any approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or collect_list
    collect_set corr count count_if covar_pop covar_samp every kurtosis max max_by mean median min min_by mode
    percentile percentile_approx regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope skewness some std
    stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp variance
"""

#: Only with OVER.
WINDOW_NAMES = """
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
"""

SCALARS = frozenset(name for group in SCALAR_GROUPS.values() for name in group.split())
AGGREGATES = frozenset(AGGREGATE_NAMES.split())
WINDOW_ONLY = frozenset(WINDOW_NAMES.split())
ALLOWED = SCALARS | AGGREGATES | WINDOW_ONLY | OWN_ARGUMENTS.keys()

#: Numbers that determine how much a function produces or how long it takes: which argument, and its allowed range. They
#: must be literals, so that the cost is known before a run.
BOUNDED_NUMBERS: dict[str, tuple[int, float, float]] = {
    "lpad": (1, 0, 1_000),
    "rpad": (1, 0, 1_000),
    # As many digits as a DECIMAL has.
    "round": (1, -38, 38),
    "bround": (1, -38, 38),
    "ceil": (1, -38, 38),
    "ceiling": (1, -38, 38),
    "floor": (1, -38, 38),
    "format_number": (1, 0, 38),
    # The relative error: halving it takes four times the memory, and Spark generates code for each word of that memory.
    "approx_count_distinct": (1, 0.02, 1),
    "approx_percentile": (2, 1, 100_000),
    "percentile_approx": (2, 1, 100_000),
}
#: Functions that do nothing without that number.
NEED_NUMBER = frozenset({"lpad", "rpad", "format_number"})

#: Texts that a function writes many times, and which must therefore be literals: which arguments.
REPEATED_TEXTS: dict[str, tuple[int, ...]] = {"replace": (2,), "array_join": (1, 2), "concat_ws": (0,)}
MAX_REPEATED_TEXT = 100

#: How many times as long as its argument a function's result can be.
_GROWTH = {"hex": 2, "base64": 2, "url_encode": 3}


def growth(node: exp.Expr) -> int:
    """How many times as large as its arguments the result of a function can be."""
    name = function_name(node)
    if name == "replace" and len(node.expressions) == 3:
        found, written = (len(text.name) if isinstance(text, exp.Literal) else 1 for text in node.expressions[1:])
        return max(1, math.ceil(written / max(1, found)))
    return _GROWTH.get(name, 1)
