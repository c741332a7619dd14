import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { parseEnv } from 'node:util';
import { type MailServer, startMailServer } from '@ropewalk/server/app/notification/testing/mail-server';
import { type Gitea, needsGitea, startGitea } from './gitea.ts';
import { Guide } from './guide.ts';
import { ensureExecutable, eventually, freePort, type ServerProcess, startCoderServer } from './harness.ts';

let dir: string;
let gitea: Gitea;
let mail: MailServer;
let server: ServerProcess;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'platform-company-'));
  // workspaces have their own user, and read the authorities
  chmodSync(dir, 0o711);
});
after(async () => {
  await server?.stop();
  await mail?.close();
  await gitea?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** Gives a company's Gitea its people, teams and a private repository. */
async function fillGitea(): Promise<void> {
  for (const name of ['kim', 'lee']) await gitea.addUser(name);
  for (const name of ['engineering', 'research']) {
    await gitea.api('POST', '/orgs', { username: name, visibility: 'private' });
  }
  await gitea.api('POST', '/orgs/engineering/repos', { name: 'site', private: true, auto_init: true });
  for (const [org, name, person] of [
    ['engineering', 'web', 'kim'],
    ['research', 'lab', 'lee'],
  ]) {
    const team = await gitea.api<{ id: number }>('POST', `/orgs/${org}/teams`, {
      name,
      permission: 'write',
      includes_all_repositories: true,
      units: ['repo.code'],
    });
    await gitea.api('PUT', `/teams/${team.id}/members/${person}`);
  }
}

test('a company is set up as the guide says', { ...needsGitea, timeout: 300_000 }, async () => {
  const [executable, port, mailPort, plainPort] = await Promise.all([
    ensureExecutable(),
    freePort(),
    freePort(),
    freePort(),
    startGitea().then((started) => (gitea = started)),
  ]);
  await fillGitea();
  const access = await gitea.api<{ sha1: string }>('POST', '/users/root/tokens', {
    name: 'setup',
    scopes: ['write:user'],
  });

  // programs of the new machine
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  symlinkSync(executable, join(bin, 'coder'));
  writeFileSync(join(bin, 'sudo'), '#!/bin/sh\nexec "$@"\n');
  chmodSync(join(bin, 'sudo'), 0o755);
  const settings = join(dir, 'coder.d');
  mkdirSync(settings);

  const url = `https://127.0.0.1:${port}`;
  const trusted = join(dir, 'trusted.crt');
  const trust = { SSL_CERT_FILE: trusted };
  const guide = new Guide('new-company.md', dir, { PATH: `${bin}:${process.env['PATH']}`, ...trust });
  guide.replace
    .set('https://coder.example.com', url)
    .set('DNS:coder.example.com', 'IP:127.0.0.1')
    .set('0.0.0.0:443', `127.0.0.1:${port}`)
    .set('https://git.example.com', gitea.url)
    .set('mail.example.com:587', `127.0.0.1:${mailPort}`)
    .set('/etc/coder.d', settings)
    .set(' -g coder', '')
    .set('<token>', access.sha1);

  await guide.section('Make a certificate');
  const authority = readFileSync(join(guide.home('admin'), 'ca.crt'), 'utf8');
  const authorities = [...getCACertificates('system'), authority];
  writeFileSync(trusted, authorities.join('\n'));
  setDefaultCACertificates(authorities);
  mail = await startMailServer({
    port: mailPort,
    disabledCommands: ['AUTH'],
    key: readFileSync(join(settings, 'tls.key')),
    cert: readFileSync(join(settings, 'tls.crt')),
  });
  const subjects = () =>
    mail.mails.filter(({ secure }) => secure).map(({ text }) => /^Subject: (.*?)\r?$/m.exec(text)?.[1]);

  await guide.section('Register the server at Gitea');
  await guide.section('Start the server');
  server = await startCoderServer({
    port: plainPort,
    program: [executable],
    env: { ...parseEnv(readFileSync(join(settings, 'coder.env'), 'utf8')), ...trust },
  });
  await guide.section('Create the first owner');
  await guide.section('Create a second organization');
  await guide.section('Take organizations and groups from claims');
  await guide.section('Write a template');
  // the machine of the test does not trust the authority, so workspaces do it one by one
  const main = join(guide.home('admin'), 'web/main.tf');
  writeFileSync(main, readFileSync(main, 'utf8').replace('env -i ', `env -i SSL_CERT_FILE=${trusted} `));
  await guide.section('Publish it for one group');

  const isBack = (at: string) => at.startsWith(url) && !at.includes('/callback');
  const browsers = await Promise.all(['kim', 'lee'].map((name) => gitea.browser(name)));
  for (const [n, name] of ['kim', 'lee'].entries()) {
    const browser = browsers[n]!;
    const home = await browser.allow(`${url}/api/v2/users/oidc/callback`, isBack);
    assert.equal(home, `${url}/`, decodeURIComponent(browser.cookie(url, 'coder_sign_in_error') ?? ''));
    const token = browser.cookie(url, 'coder_session_token');
    guide.people[name] = { CODER_URL: url, CODER_SESSION_TOKEN: token };
  }
  await guide.section('Sign in as a developer');
  assert.equal(await browsers[0]!.allow(`${url}/external-auth/git/callback`, isBack), `${url}/external-auth/git`);
  await guide.section('Clone a private repository');
  await guide.section('Reach the quota');
  await guide.section('Read the emails');
  const subjectsOfGuide = ['A test notification', "User account 'kim' was created", "User account 'lee' was created"];
  await eventually('the mails', async () => subjectsOfGuide.every((subject) => subjects().includes(subject)));
  await guide.section('Search the audit log');
  guide.ends();
});
