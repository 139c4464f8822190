CREATE REPETITIVE CHANNEL EmergenciesOfType (etype STRING) PERIOD 10 SECONDS AS
  SELECT r.* FROM EmergencyReports r
  WHERE is_new(r) AND r.etype = :etype;
