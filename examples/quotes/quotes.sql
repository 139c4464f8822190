-- Every quote, with the price before it. Rows are only ever added.
CREATE ACTIVE DATASET Quotes (id STRING, symbol STRING, previous DOUBLE, price DOUBLE, PRIMARY KEY (id));
CREATE FEED quotes INTO Quotes FROM HTTP;

-- Who publishes quotes, and nothing else: the answer has its token.
CREATE PUBLISHER exchange;
GRANT PUBLISH ON FEED quotes TO PUBLISHER exchange;

-- Who is behind a symbol.
CREATE REFERENCE DATASET Companies (symbol STRING, name STRING, PRIMARY KEY (symbol));
INSERT INTO Companies VALUES ('ACME', 'Acme Anvils'), ('INIT', 'Initech'), ('TYRL', 'Tyrell'), ('WAYN', 'Wayne');

-- Who owns how much: the latest record for each owner and symbol counts.
CREATE KEYED DATASET Holdings (owner STRING, symbol STRING, shares INT, PRIMARY KEY (owner, symbol));
CREATE FEED holdings INTO Holdings FROM HTTP;

-- Tell me when a symbol rises above a price, or falls below one.
CREATE CONTINUOUS CHANNEL RisesAbove (symbol STRING, price DOUBLE) AS
  SELECT q.id, c.name, q.price FROM Quotes q JOIN Companies c ON c.symbol = q.symbol
  WHERE is_new(q) AND q.symbol = :symbol AND q.previous <= :price AND q.price > :price;
CREATE CONTINUOUS CHANNEL FallsBelow (symbol STRING, price DOUBLE) AS
  SELECT q.id, c.name, q.price FROM Quotes q JOIN Companies c ON c.symbol = q.symbol
  WHERE is_new(q) AND q.symbol = :symbol AND q.previous >= :price AND q.price < :price;

-- Tell me when something that I hold gains or loses at least so much in one quote, all my shares together. Whose shares
-- those are is filled in by the broker with who has connected: nobody learns what somebody else holds.
CREATE CONTINUOUS CHANNEL MyMoves (owner STRING IS USER, at_least DOUBLE) AS
  SELECT q.id, c.name, q.price, h.shares * (q.price - q.previous) AS gain
  FROM Quotes q JOIN Holdings h ON h.symbol = q.symbol JOIN Companies c ON c.symbol = q.symbol
  WHERE is_new(q) AND h.owner = :owner AND abs(h.shares * (q.price - q.previous)) >= :at_least;
