import type { APIKey } from '@ropewalk/contract';
import { ALLOW_ALL, grantsOfScopes, TOKEN_SCOPES } from '@ropewalk/contract/token-scopes';
import { ownValue } from '@ropewalk/kit/own-value';
import { actionName, capital } from '../../util/permission-names.ts';

/** How the form starts a choice of scopes: with one of them, or with those that the person selects. */
export type Access = 'all' | 'application_connect' | 'selected';

export const ACCESS: { value: Access; label: string; help: string }[] = [
  { value: 'all', label: 'Everything', help: 'All that you may do.' },
  { value: 'application_connect', label: 'Apps only', help: 'Opens workspace apps, and nothing else.' },
  { value: 'selected', label: 'Selected scopes', help: 'Only what the scopes below permit.' },
];

export interface Choice {
  value: string;
  label: string;
  help: string;
}

const TYPES: Readonly<Record<string, string>> = {
  api_key: 'Tokens',
  file: 'Files',
  organization: 'Organizations',
  organization_member: 'Members',
  provisioner_jobs: 'Provisioner jobs',
  template: 'Templates',
  user: 'Your account and other users',
  workspace: 'Workspaces',
};

const typeName = (type: string) => ownValue(TYPES, type) ?? capital(type);

export interface Grant {
  type: string;
  actions: string;
}

/** What scopes permit together, for each type of object. */
export function preview(names: readonly string[]): Grant[] {
  return Object.entries(grantsOfScopes(names)).map(([type, actions]) => ({
    type: type === '*' ? 'Everything' : typeName(type),
    actions: actions === '*' ? 'Every action' : actions.map(actionName).join(', '),
  }));
}

const ALONE = ['coder:all', 'coder:application_connect'];

/** The scopes that a person can select among those of the server. The combined ones come first. */
export function scopeChoices(names: readonly string[]): Choice[] {
  return names
    .filter((name) => TOKEN_SCOPES.has(name) && !ALONE.includes(name))
    .sort((a, b) => Number(b.startsWith('coder:')) - Number(a.startsWith('coder:')))
    .map((value) => ({
      value,
      label: value,
      help: preview([value])
        .map(({ type, actions }) => `${type}: ${actions.toLowerCase()}`)
        .join('. '),
    }));
}

/** The choices whose name or help contains every word. */
export function matching(choices: readonly Choice[], typed: string): Choice[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return choices.filter(({ label, help }) => words.every((word) => `${label} ${help}`.toLowerCase().includes(word)));
}

/** What a list shows of a token's limits. */
export function summaryOf({ scopes, allow_list: objects }: Pick<APIKey, 'scopes' | 'allow_list'>): string {
  const first = scopes[0] ?? '';
  const what =
    scopes.length > 1 ? `${scopes.length} scopes` : first === 'coder:all' ? 'Everything' : first.replace(/^coder:/, '');
  const shown = first === 'coder:application_connect' && scopes.length === 1 ? 'Apps only' : what;
  if (objects.includes(ALLOW_ALL)) return shown;
  return `${shown}, ${objects.length === 1 ? '1 object' : `${objects.length} objects`}`;
}
