CREATE REPETITIVE CHANNEL EmergenciesOfTypeWithShelterNearMe (etype STRING, user_id STRING) PERIOD 10 SECONDS AS
  SELECT r.*, s.name AS shelter, distance(s.x, s.y, u.x, u.y) AS shelter_metres
  FROM EmergencyReports r
  JOIN UserLocations u ON u.user_id = :user_id
  JOIN Shelters s ON within(s.x, s.y, u.x, u.y, 1000.0)
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, u.x, u.y, 2000.0);
