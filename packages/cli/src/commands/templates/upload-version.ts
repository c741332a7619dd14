import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import type { Client } from '@ropewalk/client';
import type { Organization, TemplateVersion, TemplateVersionVariable } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { note, print, warn } from '../../framework/io.ts';
import { followImport } from '../../lib/job.ts';
import { ask } from '../../lib/prompt.ts';
import { resourcesText } from '../../lib/resources.ts';
import { merged, type NamedValue, namedValues, valuesFile } from '../../lib/values.ts';
import { hasLockFile, packTemplate } from './pack.ts';

/** The flags of commands that upload a template version. */
export const uploadFlags = {
  directory: {
    type: 'string',
    short: 'd',
    default: '.',
    description: 'Directory of the template. With -, reads a tar archive from standard input.',
  },
  'variables-file': {
    type: 'string',
    description: 'YAML file with values of Terraform variables, one "name: value" per line.',
  },
  variable: {
    type: 'string[]',
    pairs: true,
    description: 'Value of a Terraform variable, as name=value. May be repeated.',
  },
  var: { type: 'string[]', pairs: true, description: 'Alias of --variable.' },
  'provisioner-tag': {
    type: 'string[]',
    description:
      'Tag that a provisioner daemon needs to take the job, as key=value. May be repeated. With -, no tags. Default: the tags of the previous version.',
  },
  'ignore-lockfile': { type: 'bool', description: 'Do not warn if the template has no .terraform.lock.hcl.' },
  message: { type: 'string', short: 'm', description: 'Description of the change, at most 72 characters.' },
} as const;

export interface UploadValues {
  directory: string;
  'variables-file': string;
  variable: string[];
  var: string[];
  'provisioner-tag': string[];
  'ignore-lockfile': boolean;
  message: string;
}

export interface UploadInput {
  organization: Organization;
  flags: UploadValues;
  templateId?: string | undefined;
  name?: string | undefined;
  /** Tags for when the flags name none. */
  tags?: Readonly<Record<string, string>> | undefined;
  /** Ask no question that has a default. */
  yes?: boolean;
  /** Ask for every variable, not only for missing ones. */
  askAll?: boolean;
}

const NO_TERMINAL = '--always-prompt requires a terminal.';

/** Checks that `--always-prompt` can ask. @throws AppError `invalid`. */
export function checkCanAskAll(ctx: Context, { directory }: UploadValues): void {
  if (!ctx.interactive) throw new AppError('invalid', NO_TERMINAL);
  if (directory === '-')
    throw new AppError('invalid', '--always-prompt requires a terminal, but standard input is the template.');
}

/** The default name of a template: that of its directory. */
export function nameOfDirectory(directory: string): string {
  return basename(resolve(directory))
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 32);
}

/**
 * Uploads a directory, imports it as a version, and shows the import and the resources of the template. Only the import
 * finds missing variables: the function asks for them and imports again. @throws AppError with the import's error.
 */
export async function uploadVersion(ctx: Context, client: Client, input: UploadInput): Promise<TemplateVersion> {
  const { flags } = input;
  const archive = await archiveOf(ctx, flags);
  const variables = await givenVariables(flags);
  const fileId = await client.upload(archive, 'application/x-tar');
  let version = await create(client, input, fileId, variables);
  const tagged = await offerTags(ctx, client, input, version);
  if (tagged) {
    await retire(client, input, version);
    return uploadVersion(ctx, client, tagged);
  }
  const failure = await imported(ctx, client, version);
  const missing = failure ? await missingVariables(client, version, failure) : [];
  if (failure && missing.length === 0) throw failure;
  const answers = input.askAll ? await askForAll(ctx, client, version, missing) : await askForMissing(ctx, missing);
  if (failure || answers.length > 0) {
    await retire(client, input, version);
    version = await create(client, input, fileId, merged(variables, answers));
    const again = await imported(ctx, client, version);
    if (again) throw again;
  }
  const resources = await client.call('GET /templateversions/{templateversion}/resources', {
    params: { templateversion: version.id },
  });
  const started = resources.filter((one) => one.workspace_transition === 'start');
  print(ctx.io, `\n${resourcesText(started, { title: 'A workspace of this template will have:' })}\n`);
  return version;
}

/**
 * Offers to import a version again with the tags that its template names, if no daemon takes the import without them.
 * Returns the input with these tags. Undefined without such tags, without a terminal, and if the person declines.
 */
async function offerTags(
  ctx: Context,
  client: Client,
  input: UploadInput,
  version: TemplateVersion,
): Promise<UploadInput | undefined> {
  const named = version.job.pending_reason?.template_tags;
  if (!named || !ctx.interactive || input.yes || input.flags.directory === '-') return undefined;
  warn(ctx, version.job.pending_reason!.message);
  const asTexts = (of: Readonly<Record<string, string>>) => Object.entries(of).map(([key, value]) => `${key}=${value}`);
  const answer = await ask(ctx, {
    text: `Import it with the tags ${asTexts(named).join(', ')}? (yes/no)`,
    fallback: 'yes',
    missing: NO_TERMINAL,
    check: (text) => (/^(y|yes|n|no)$/i.test(text) ? undefined : 'Answer yes or no.'),
  });
  if (!/^y/i.test(answer)) return undefined;
  await client.call('PATCH /templateversions/{templateversion}/cancel', { params: { templateversion: version.id } });
  const { owner: _owner, scope: _scope, ...before } = version.job.tags;
  return { ...input, flags: { ...input.flags, 'provisioner-tag': asTexts({ ...before, ...named }) } };
}

async function archiveOf(ctx: Context, flags: UploadValues): Promise<Uint8Array<ArrayBuffer>> {
  if (flags.directory === '-') {
    const { buffer } = await import('node:stream/consumers');
    return new Uint8Array(await buffer(ctx.io.stdin));
  }
  const { bytes, links } = await packTemplate(flags.directory);
  if (links.length > 0) warn(ctx, `leaving out symbolic links: ${links.join(', ')}.`);
  if (!flags['ignore-lockfile'] && !hasLockFile(flags.directory)) {
    warn(ctx, 'the template has no .terraform.lock.hcl. The versions of its providers may change.');
  }
  return bytes;
}

async function givenVariables(flags: UploadValues): Promise<NamedValue[]> {
  let path = flags['variables-file'];
  if (path === '' && flags.directory !== '-') {
    const found = ['variables.yaml', 'variables.yml', 'terraform.tfvars.yaml'].map((one) => join(flags.directory, one));
    path = found.find(existsSync) ?? '';
  }
  const file = path === '' ? [] : await valuesFile(path);
  return merged(file, namedValues(flags.var, 'var'), namedValues(flags.variable, 'variable'));
}

function tagsOf(texts: readonly string[]): Record<string, string> {
  if (texts.length === 1 && texts[0] === '-') return {};
  return Object.fromEntries(namedValues(texts, 'provisioner-tag').map(({ name, value }) => [name, value]));
}

function create(
  client: Client,
  { organization, flags, templateId, name, tags }: UploadInput,
  fileId: string,
  variables: readonly NamedValue[],
): Promise<TemplateVersion> {
  const wanted = flags['provisioner-tag'].length > 0 ? tagsOf(flags['provisioner-tag']) : (tags ?? {});
  return client.call('POST /organizations/{organization}/templateversions', {
    params: { organization: organization.id },
    body: {
      file_id: fileId,
      provisioner: 'terraform',
      storage_method: 'file',
      tags: { ...wanted },
      user_variable_values: [...variables],
      ...(flags.message ? { message: flags.message } : {}),
      ...(name ? { name } : {}),
      ...(templateId ? { template_id: templateId } : {}),
    },
  });
}

async function imported(ctx: Context, client: Client, version: TemplateVersion): Promise<AppError | undefined> {
  try {
    await followImport(ctx, client, version.id);
    return undefined;
  } catch (err) {
    if (err instanceof AppError && err.code === 'conflict') return err;
    throw err;
  }
}

/** Frees the version's name for the version that replaces it, and archives it where the server supports that. */
async function retire(client: Client, { name, templateId }: UploadInput, version: TemplateVersion): Promise<void> {
  const params = { templateversion: version.id };
  if (name && templateId) {
    const other = `unused-${version.id.slice(0, 8)}`;
    await client.call('PATCH /templateversions/{templateversion}', { params, body: { name: other } });
  }
  await client.call('POST /templateversions/{templateversion}/archive', { params }).catch(() => {});
}

async function missingVariables(
  client: Client,
  version: TemplateVersion,
  failure: AppError,
): Promise<TemplateVersionVariable[]> {
  const params = { templateversion: version.id };
  const { job } = await client.call('GET /templateversions/{templateversion}', { params });
  const reported = /required template variables(?: need values: (.*))?/.exec(failure.message);
  if (!reported && job.error_code !== 'REQUIRED_TEMPLATE_VARIABLES') return [];
  const declared = await client.call('GET /templateversions/{templateversion}/variables', { params });
  const needed = declared.filter((one) => one.required && (one.sensitive || one.value === ''));
  // the API never returns the value of a secret, so that only the error says which are missing
  const named = new Set(reported?.[1]?.split(',').map((name) => name.trim()));
  const certain = needed.filter((one) => named.has(one.name));
  return certain.length > 0 ? certain : needed;
}

async function askForMissing(ctx: Context, missing: readonly TemplateVersionVariable[]): Promise<NamedValue[]> {
  const answers = [];
  for (const { name } of missing) {
    const needed = missing.map((one) => one.name).join(', ');
    answers.push({
      name,
      value: await ask(ctx, {
        text: `Variable ${name}`,
        missing: `Missing value for the Terraform variable ${needed}. Set it with --variable ${name}=<value>`,
      }),
    });
  }
  return answers;
}

/** Asks for every variable. Returns the answers that change a value. */
async function askForAll(
  ctx: Context,
  client: Client,
  version: TemplateVersion,
  missing: readonly TemplateVersionVariable[],
): Promise<NamedValue[]> {
  const params = { templateversion: version.id };
  const declared = await client.call('GET /templateversions/{templateversion}/variables', { params });
  const answers = [];
  for (const { name, description, value: shown, sensitive } of declared) {
    const current = sensitive ? '' : shown;
    if (description) note(ctx.io, description);
    const needed = missing.some((one) => one.name === name);
    const hint = sensitive ? ` (secret${needed ? '' : '; empty keeps its value'})` : '';
    const value = await ask(ctx, {
      text: `Variable ${name}${hint}`,
      fallback: current,
      missing: NO_TERMINAL,
      secret: sensitive,
      check: (answer) => (needed && answer === '' ? 'Enter a value.' : undefined),
    });
    if (value !== current) answers.push({ name, value });
  }
  return answers;
}
