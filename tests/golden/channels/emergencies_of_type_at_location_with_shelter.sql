CREATE REPETITIVE CHANNEL EmergenciesOfTypeAtLocationWithShelter (etype STRING, x DOUBLE, y DOUBLE)
  PERIOD 30 SECONDS AS
  SELECT r.*, s.name AS shelter, distance(s.x, s.y, :x, :y) AS shelter_metres
  FROM EmergencyReports r
  JOIN Shelters s ON within(s.x, s.y, :x, :y, 1000.0)
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, :x, :y, 2000.0);
