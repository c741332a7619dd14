import type {
  Preset,
  Template,
  TemplateVersion,
  TemplateVersionExternalAuth,
  TemplateVersionParameter,
} from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useMe } from '../../../api/me.ts';
import { apiQuery } from '../../../api/query.ts';
import type { NameValue, Sources } from '../../../forms/parameters/state.ts';
import { useLiveParameters } from '../../../forms/parameters/use-live-parameters.ts';
import { useParameters } from '../../../forms/parameters/use-parameters.ts';
import { useSearchParams } from '../../../util/route.ts';
import { missingAccounts } from './accounts.tsx';
import { nameProblem, suggestName } from './suggest-name.ts';

/** What a workspace is made from, and the values that the form begins with. */
export interface DraftSource {
  template: Template;
  version: TemplateVersion | undefined;
  definitions: readonly TemplateVersionParameter[];
  presets: readonly Preset[];
  accounts: readonly TemplateVersionExternalAuth[];
  autofill: readonly NameValue[];
  usedNames: readonly string[];
  link: readonly NameValue[];
  linkName: string | undefined;
  linkPreset: string | undefined;
  mode: 'manual' | 'auto' | 'duplicate';
}

function sourcesOf({ presets, linkPreset, mode, link, autofill }: DraftSource): Sources {
  const preset =
    presets.find(({ Name, ID }) => Name === linkPreset || ID === linkPreset) ??
    (mode === 'duplicate' || link.length > 0 ? undefined : presets.find(({ Default }) => Default));
  return { autofill, preset, link };
}

/** The name, the owner and the parameters of a new workspace, and what is wrong with them. */
export function useDraft(source: DraftSource) {
  const { template, version, usedNames } = source;
  const me = useMe();
  const [search] = useSearchParams();
  const sources = sourcesOf(source);
  const classic = useParameters(source.definitions, sources);
  const [name, setName] = useState(() => source.linkName ?? suggestName(new Set(usedNames)));
  const [owner, setOwner] = useState(search.owner ?? me.username);
  const isOwn = owner === me.username;
  const other = useQuery({
    ...apiQuery('GET /users/{user}', [{ kind: 'user' }], { params: { user: owner } }),
    enabled: !isOwn,
  });
  const ownerId = isOwn ? me.id : other.data?.id;
  const live = useLiveParameters(
    version && !template.use_classic_parameter_flow ? { versionId: version.id, ownerId, sources } : undefined,
  );
  const parameters = live ?? classic;
  const taken = isOwn && usedNames.includes(name.toLowerCase());
  const problem = nameProblem(name) ?? (taken ? 'You have a workspace of this name. Choose another name.' : undefined);
  const missing = isOwn ? missingAccounts(source.accounts) : [];
  return {
    name,
    setName,
    suggestName: () => setName(suggestName(new Set([...usedNames, name]))),
    nameProblem: problem,
    owner,
    setOwner,
    /** Undefined while the form is the classic one. */
    live,
    parameters,
    /** The accounts that the owner has to connect first. */
    missing,
    ready: problem === undefined && parameters.valid && missing.length === 0,
  };
}

export type Draft = ReturnType<typeof useDraft>;
