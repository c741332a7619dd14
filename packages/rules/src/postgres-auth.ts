/** The kinds of authentication at the database, of the server and of the commands that work without one. */
export const POSTGRES_AUTH = {
  values: ['password', 'awsiamrds', 'gcpiam', 'azureentra'],
  description: 'The authentication for the database: a password, or short-lived tokens of AWS, Google Cloud or Azure.',
} as const;
