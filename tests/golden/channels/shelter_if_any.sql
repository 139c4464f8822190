CREATE REPETITIVE CHANNEL ShelterIfAny (etype STRING) PERIOD 10 SECONDS AS
  SELECT r.id, s.name FROM EmergencyReports r
  LEFT JOIN Shelters s ON within(r.x, r.y, s.x, s.y, 1000)
  WHERE is_new(r) AND r.etype = :etype;
