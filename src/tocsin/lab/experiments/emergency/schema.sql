-- The emergency application. Coordinates are metres on the city's plane.

CREATE ACTIVE DATASET EmergencyReports (id STRING, etype STRING, x DOUBLE, y DOUBLE, severity INT,
                                        message STRING, PRIMARY KEY (id));
CREATE KEYED DATASET UserLocations (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
CREATE REFERENCE DATASET Shelters (id STRING, name STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (id));

CREATE FEED reports INTO EmergencyReports FROM HTTP;
CREATE FEED locations INTO UserLocations FROM HTTP;

CREATE REPETITIVE CHANNEL EmergenciesOfType (etype STRING) PERIOD 10 SECONDS AS
  SELECT r.* FROM EmergencyReports r
  WHERE is_new(r) AND r.etype = :etype;

CREATE REPETITIVE CHANNEL EmergenciesAtLocation (x DOUBLE, y DOUBLE, radius_m DOUBLE) PERIOD 20 SECONDS AS
  SELECT r.*, distance(r.x, r.y, :x, :y) AS metres
  FROM EmergencyReports r
  WHERE is_new(r) AND within(r.x, r.y, :x, :y, :radius_m);

CREATE REPETITIVE CHANNEL EmergenciesNearMe (user_id STRING IS USER, radius_m DOUBLE) PERIOD 10 SECONDS AS
  SELECT r.*, distance(r.x, r.y, u.x, u.y) AS metres
  FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
  WHERE is_new(r) AND within(r.x, r.y, u.x, u.y, :radius_m);

CREATE REPETITIVE CHANNEL EmergenciesOfTypeNearMe (etype STRING, user_id STRING IS USER, radius_m DOUBLE) PERIOD 10 SECONDS AS
  SELECT r.*, distance(r.x, r.y, u.x, u.y) AS metres
  FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, u.x, u.y, :radius_m);

CREATE REPETITIVE CHANNEL EmergenciesOfTypeAtLocation (etype STRING, x DOUBLE, y DOUBLE, radius_m DOUBLE)
  PERIOD 30 SECONDS AS
  SELECT r.*, distance(r.x, r.y, :x, :y) AS metres
  FROM EmergencyReports r
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, :x, :y, :radius_m);

-- Emergencies within 2 km of the user, each with the shelters within 1 km of the user.
CREATE REPETITIVE CHANNEL EmergenciesOfTypeWithShelterNearMe (etype STRING, user_id STRING IS USER) PERIOD 10 SECONDS AS
  SELECT r.*, s.name AS shelter, distance(s.x, s.y, u.x, u.y) AS shelter_metres
  FROM EmergencyReports r
  JOIN UserLocations u ON u.user_id = :user_id
  JOIN Shelters s ON within(s.x, s.y, u.x, u.y, 1000.0)
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, u.x, u.y, 2000.0);

-- Emergencies within 2 km of the place, each with the shelters within 1 km of the place.
CREATE REPETITIVE CHANNEL EmergenciesOfTypeAtLocationWithShelter (etype STRING, x DOUBLE, y DOUBLE)
  PERIOD 30 SECONDS AS
  SELECT r.*, s.name AS shelter, distance(s.x, s.y, :x, :y) AS shelter_metres
  FROM EmergencyReports r
  JOIN Shelters s ON within(s.x, s.y, :x, :y, 1000.0)
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, :x, :y, 2000.0);
