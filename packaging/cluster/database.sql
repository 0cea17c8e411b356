-- The role and the database of Ringfence. The role needs no privileges beyond its database.
-- psql -h 10.0.0.11 -U postgres -v password=change-me -f database.sql
CREATE ROLE ringfence LOGIN PASSWORD :'password';
CREATE DATABASE ringfence OWNER ringfence;
