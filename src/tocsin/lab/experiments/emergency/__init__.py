"""The emergency application: reports, moving people, shelters, and seven channels over them."""
