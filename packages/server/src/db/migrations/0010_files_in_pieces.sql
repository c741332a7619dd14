-- Files are read in pieces. PostgreSQL finds a piece of a value that is not compressed without reading the rest; values
-- that are already compressed stay so.
ALTER TABLE files ALTER COLUMN data SET STORAGE EXTERNAL;
