-- What a person chose about the dashboard's display. Keys that are absent have their default.
CREATE TABLE user_preferences (
  user_id uuid PRIMARY KEY REFERENCES users(id) ON DELETE CASCADE,
  settings jsonb NOT NULL
);
