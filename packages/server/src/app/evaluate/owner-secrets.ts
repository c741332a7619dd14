// Decides which of the workspace owner's secrets a build gets: those that the template or a fetched module names. A
// mention in a comment counts, too: an unused secret is better than a failed build.

/** The owner's secrets that a daemon can get with a build. */
export interface OwnerSecrets {
  sessionToken: boolean;
  sshKey: boolean;
  /** The access token of the OpenID Connect provider. */
  oidcToken: boolean;
}

export const ALL_OWNER_SECRETS: Readonly<OwnerSecrets> = { sessionToken: true, sshKey: true, oidcToken: true };
export const NO_OWNER_SECRETS: Readonly<OwnerSecrets> = { sessionToken: false, sshKey: false, oidcToken: false };

/** More mentions than any real template has. Beyond them, the text counts as reading the owner as a whole. */
const MAX_MENTIONS = 10_000;

/**
 * Finds the secrets that the files of a tar name, by the attributes of `coder_workspace_owner` or by Terraform's
 * environment variables. Reading the owner as a whole object counts as naming all.
 */
export function ownerSecretsNamedIn(archive: Uint8Array): OwnerSecrets {
  const text = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength);
  const has = (word: string) => text.includes(word, 0, 'latin1');
  if (readsWholeOwner(text)) return { ...ALL_OWNER_SECRETS };
  return {
    sessionToken: has('session_token') || has('CODER_WORKSPACE_OWNER_SESSION_TOKEN'),
    sshKey: has('ssh_p') || has('CODER_WORKSPACE_OWNER_SSH_P'),
    oidcToken: has('oidc_access_token') || has('CODER_WORKSPACE_OWNER_OIDC_ACCESS_TOKEN'),
  };
}

/** Whether the owner is used anywhere without an attribute, or with a computed one. */
function readsWholeOwner(text: Buffer): boolean {
  const word = 'coder_workspace_owner.';
  let mentions = 0;
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (++mentions > MAX_MENTIONS) return true;
    let end = at + word.length;
    while (end < text.length && isNameByte(text[end]!)) end++;
    if (end > at + word.length && text[end] !== 0x2e) return true;
  }
  return false;
}

function isNameByte(byte: number): boolean {
  const lower = byte | 0x20;
  return (lower >= 0x61 && lower <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x5f || byte === 0x2d;
}

export function anyOf(a: OwnerSecrets, b: OwnerSecrets): OwnerSecrets {
  return {
    sessionToken: a.sessionToken || b.sessionToken,
    sshKey: a.sshKey || b.sshKey,
    oidcToken: a.oidcToken || b.oidcToken,
  };
}
