CREATE REPETITIVE CHANNEL Echoes (etype STRING) PERIOD 10 SECONDS AS
  SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND EXISTS
  (SELECT 1 FROM EmergencyReports q WHERE q.etype = :etype AND q.message = r.message);
