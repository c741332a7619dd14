// The rules of a person's secrets, which the server, the command line and the dashboard check alike. Limits and reserved
// names are upstream's.

/** The maximum number of secrets of a person. */
export const MAX_SECRETS = 50;
/** The maximum length of one value in bytes, and of all values together that are environment variables. */
export const MAX_SECRET_BYTES = 24 * 1024;
/** The maximum length of all values of a person in bytes. */
export const MAX_ALL_SECRETS_BYTES = 200 * 1024;
/** The maximum length of the name of a variable in bytes. */
export const MAX_ENV_NAME_BYTES = 256;
/** The maximum length of a path in bytes: `PATH_MAX` of Linux. */
export const MAX_FILE_PATH_BYTES = 4_096;

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Variables that belong to the system, shells, SSH, editors and the agent. In upper case. */
const RESERVED = new Set(
  `PATH HOME SHELL USER LOGNAME PWD OLDPWD LANG TERM IFS CDPATH ENV BASH_ENV TMPDIR TMP TEMP HOSTNAME
  SSH_AUTH_SOCK SSH_CLIENT SSH_CONNECTION SSH_TTY EDITOR VISUAL PAGER VSCODE_PROXY_URI
  CS_DISABLE_GETTING_STARTED_OVERRIDE XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME
  XDG_STATE_HOME`.split(/\s+/),
);
/** How reserved names begin: those of Git, locales and dynamic linkers. */
const RESERVED_PREFIXES = ['CODER_', 'GIT_', 'LC_', 'LD_', 'DYLD_'];

const bytes = (text: string): number => new TextEncoder().encode(text).length;

/** Why a text cannot name a secret. Undefined if it can. Names are parts of paths. */
export function secretNameProblem(name: string): string | undefined {
  if (name.trim() === '') return 'A name is required.';
  if (name.trim() !== name) return 'A name cannot begin or end with whitespace.';
  if (/[/?#]/.test(name)) return 'A name must not contain "/", "?" or "#".';
  return name.includes('\0') ? 'A name must not contain null bytes.' : undefined;
}

/** Why a text cannot be the value of a secret. Undefined if it can. */
export function secretValueProblem(value: string): string | undefined {
  if (value.includes('\0')) return 'A value must not contain null bytes.';
  return bytes(value) > MAX_SECRET_BYTES ? `A value must not exceed ${MAX_SECRET_BYTES} bytes.` : undefined;
}

/** Why a text cannot name the environment variable of a secret. Undefined if it can. Empty means no variable. */
export function envNameProblem(name: string): string | undefined {
  if (name === '') return undefined;
  if (bytes(name) > MAX_ENV_NAME_BYTES) return `The name of a variable must not exceed ${MAX_ENV_NAME_BYTES} bytes.`;
  if (!ENV_NAME.test(name))
    return 'The name of a variable must start with a letter or an underscore, and contain only letters, digits and underscores.';
  const upper = name.toUpperCase();
  if (RESERVED.has(upper) || upper === 'CODER') return `The variable ${upper} is reserved. Choose another name.`;
  const prefix = RESERVED_PREFIXES.find((start) => upper.startsWith(start));
  return prefix && `Variables that begin with ${prefix} are reserved. Choose another name.`;
}

/** Why a text cannot be the path of a secret's file. Undefined if it can. Empty means no file. */
export function filePathProblem(path: string): string | undefined {
  if (path === '') return undefined;
  if (!path.startsWith('~/') && !path.startsWith('/')) return 'The path of a file must start with "~/" or "/".';
  if (path.includes('\0')) return 'The path of a file must not contain null bytes.';
  return bytes(path) > MAX_FILE_PATH_BYTES
    ? `The path of a file must not exceed ${MAX_FILE_PATH_BYTES} bytes.`
    : undefined;
}

/** A new secret. Absent texts are empty, and it is enabled unless `enabled` is false. */
export interface NewSecret {
  name: string;
  value: string;
  description?: string | undefined;
  env_name?: string | undefined;
  file_path?: string | undefined;
  enabled?: boolean | undefined;
}

/** A field of a secret that has a wrong value. */
export interface SecretProblem {
  field: 'name' | 'value' | 'env_name' | 'file_path';
  detail: string;
}

/** What is wrong with an enabled secret that no workspace would get. */
export const NO_TARGET: SecretProblem = {
  field: 'env_name',
  detail:
    'An enabled secret needs at least one of env_name or file_path. To keep a secret without using it, disable it.',
};

/** What is wrong with these fields of a secret. Absent fields are not checked. */
export function secretProblems(fields: Partial<NewSecret>): SecretProblem[] {
  const checks: [SecretProblem['field'], (text: string) => string | undefined][] = [
    ['name', secretNameProblem],
    ['value', secretValueProblem],
    ['env_name', envNameProblem],
    ['file_path', filePathProblem],
  ];
  return checks.flatMap(([field, problem]) => {
    const text = fields[field];
    const detail = text === undefined ? undefined : problem(text);
    return detail === undefined ? [] : [{ field, detail }];
  });
}

/** What is wrong with a new secret. */
export function newSecretProblems(secret: NewSecret): SecretProblem[] {
  const { value, env_name: env = '', file_path: path = '', enabled = true } = secret;
  const problems = secretProblems(secret);
  if (value === '') problems.push({ field: 'value', detail: 'A value is required.' });
  if (enabled && env === '' && path === '') problems.push(NO_TARGET);
  return problems;
}
