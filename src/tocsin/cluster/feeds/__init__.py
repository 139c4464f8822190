"""Records in: the landing log, request bodies, receipts, folder feeds and the ingestion stream."""
