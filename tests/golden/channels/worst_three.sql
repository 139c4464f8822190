CREATE REPETITIVE CHANNEL Worst (etype STRING) PERIOD 10 SECONDS AS
  SELECT r.id, r.severity FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype
  ORDER BY severity DESC LIMIT 3;
