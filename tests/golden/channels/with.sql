CREATE REPETITIVE CHANNEL Crowded (etype STRING) PERIOD 10 SECONDS AS
  WITH mine AS (SELECT r.id, r.x, r.y FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype)
  SELECT m.id, count(*) AS shelters FROM mine m JOIN Shelters s ON within(m.x, m.y, s.x, s.y, 100) GROUP BY m.id;
