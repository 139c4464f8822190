CREATE REPETITIVE CHANNEL Total (etype STRING) PERIOD 10 SECONDS AS
  SELECT count(*) AS n, max(r.severity) AS worst FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype;
