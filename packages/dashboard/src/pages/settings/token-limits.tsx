import { ALLOW_ALL } from '@ropewalk/contract/token-scopes';
import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { apiQuery } from '../../api/query.ts';
import { Checkbox } from '../../ui/checkbox.tsx';
import { RadioGroup } from '../../ui/choice.tsx';
import { Field } from '../../ui/field.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { QueryView } from '../../ui/states.tsx';
import { ACCESS, type Access, type Choice, matching, preview, scopeChoices } from './token-choices.ts';

const scopesQuery = apiQuery('GET /auth/scopes', []);
const templatesQuery = apiQuery('GET /templates', [{ kind: 'template' }]);
const workspacesQuery = apiQuery('GET /workspaces', [{ kind: 'workspace' }], { query: { q: 'owner:me', limit: 100 } });

/** What a person chooses for a new token. */
export interface Limits {
  access: Access;
  /** Names of scopes, if the access is `selected`. */
  scopes: readonly string[];
  /** Entries of an allow list. Undefined: all objects. */
  objects: readonly string[] | undefined;
}

export const scopesOf = ({ access, scopes }: Limits): readonly string[] =>
  access === 'selected' ? scopes : [`coder:${access}`];

/** Whether the person has chosen less than one scope or object. */
export const isIncomplete = (limits: Limits): boolean =>
  scopesOf(limits).length === 0 || (limits.objects !== undefined && limits.objects.length === 0);

/** Chooses what a token may do, and with which objects. */
export function LimitFields({ limits, onChange }: { limits: Limits; onChange: (limits: Limits) => void }) {
  const scopes = useQuery(scopesQuery);
  return (
    <>
      <Field label="Access">
        <RadioGroup
          value={limits.access}
          onChange={(access) => onChange({ ...limits, access: access as Access })}
          options={ACCESS}
        />
      </Field>
      {limits.access === 'selected' && (
        <QueryView query={scopes}>
          {({ external }) => (
            <CheckList
              label="Scopes"
              choices={scopeChoices(external)}
              chosen={limits.scopes}
              onChange={(chosen) => onChange({ ...limits, scopes: chosen })}
            />
          )}
        </QueryView>
      )}
      <Field label="Objects">
        <RadioGroup
          value={limits.objects ? 'some' : 'all'}
          onChange={(value) => onChange({ ...limits, objects: value === 'all' ? undefined : [] })}
          options={[
            { value: 'all', label: 'All objects', help: 'Also those that do not exist yet.' },
            { value: 'some', label: 'Selected objects', help: 'Only these workspaces and templates.' },
          ]}
        />
      </Field>
      {limits.objects && (
        <ObjectList chosen={limits.objects} onChange={(objects) => onChange({ ...limits, objects })} />
      )}
      <Preview limits={limits} />
    </>
  );
}

function ObjectList({ chosen, onChange }: { chosen: readonly string[]; onChange: (chosen: string[]) => void }) {
  const workspaces = useQuery(workspacesQuery);
  const templates = useQuery(templatesQuery);
  return (
    <QueryView query={workspaces}>
      {(found) => (
        <CheckList
          label="Workspaces and templates"
          choices={[
            ...found.workspaces.map(({ id, name }) => ({ value: `workspace:${id}`, label: name, help: 'Workspace' })),
            ...(templates.data ?? []).map(({ id, name, display_name }) => ({
              value: `template:${id}`,
              label: display_name || name,
              help: 'Template',
            })),
          ]}
          chosen={chosen}
          onChange={onChange}
        />
      )}
    </QueryView>
  );
}

/** Several of many choices, found by typing. */
function CheckList({
  label,
  choices,
  chosen,
  onChange,
}: {
  label: string;
  choices: readonly Choice[];
  chosen: readonly string[];
  onChange: (chosen: string[]) => void;
}) {
  const id = useId();
  const [typed, setTyped] = useState('');
  const shown = matching(choices, typed);
  const set = (value: string, checked: boolean) =>
    onChange(checked ? [...chosen, value] : chosen.filter((one) => one !== value));
  return (
    <fieldset className="flex min-w-0 flex-col gap-2" aria-labelledby={id}>
      <div className="flex items-center gap-3">
        <span id={id} className="font-medium text-sm">
          {label}
        </span>
        <span className="text-muted text-sm" aria-live="polite">
          {chosen.length === 0 ? 'None selected' : `${chosen.length} selected`}
        </span>
      </div>
      <SearchInput
        label={`Search ${label.toLowerCase()}`}
        placeholder="Search"
        value={typed}
        onChange={setTyped}
        // Enter would submit the form
        onKeyDown={(event) => event.key === 'Enter' && event.preventDefault()}
      />
      <ul className="flex max-h-72 flex-col gap-2.5 overflow-y-auto rounded-md border border-line p-3">
        {shown.map(({ value, label: name, help }) => (
          <li key={value}>
            <Checkbox
              checked={chosen.includes(value)}
              onChange={(checked) => set(value, checked)}
              label={<span className="wrap-anywhere">{name}</span>}
              help={help}
            />
          </li>
        ))}
        {shown.length === 0 && <li className="text-muted text-sm">Nothing matches.</li>}
      </ul>
    </fieldset>
  );
}

/** What the token may do, as the server will apply it. */
function Preview({ limits }: { limits: Limits }) {
  const grants = preview(scopesOf(limits));
  const { objects } = limits;
  return (
    <section aria-label="Preview" className="flex flex-col gap-2 rounded-md bg-hover p-3 text-sm">
      <h3 className="font-medium">This token may</h3>
      {grants.length === 0 ? (
        <p className="text-muted">Do nothing yet. Select a scope.</p>
      ) : (
        <dl className="grid grid-cols-[minmax(0,1fr)_minmax(0,2fr)] gap-x-4 gap-y-1">
          {grants.map(({ type, actions }) => (
            <div key={type} className="contents">
              <dt className="text-muted">{type}</dt>
              <dd>{actions}</dd>
            </div>
          ))}
        </dl>
      )}
      <p className="text-muted">
        {objects === undefined
          ? 'With all objects that you may use, as long as you may use them.'
          : `With ${objects.length === 1 ? '1 selected object' : `${objects.length} selected objects`} only. It cannot create new ones.`}
      </p>
    </section>
  );
}

/** The limits as a request sends them. */
export const requestOf = (limits: Limits) => ({
  scopes: [...scopesOf(limits)],
  allow_list: limits.objects ? [...limits.objects] : [ALLOW_ALL],
});
