import { useQuery } from '@tanstack/react-query';
import { Plus, TableProperties, X } from 'lucide-react';
import { type ReactNode, useId, useState } from 'react';
import { call } from '../../api/client.ts';
import { errorText, fieldError, isBeyondFields } from '../../api/errors.ts';
import { apiQuery, useChange } from '../../api/query.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Switch } from '../../ui/choice.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { Select } from '../../ui/select.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { toast } from '../../ui/toast.tsx';
import { type MappingRow, mappingRows, type Target, withoutPair, withPair } from './preview.ts';

export interface Draft {
  field: string;
  mapping: Record<string, readonly string[]>;
  /** Groups only. */
  filter?: string;
  /** Whether groups are created, or everyone stays in the default organization. */
  toggle?: boolean;
}

/** The claims and values that people had at their last sign-in: of the deployment, or of an organization's members. */
const claims = (organization: string | undefined) => ({
  fields: {
    queryKey: ['claim fields', organization ?? ''],
    queryFn: () =>
      organization
        ? call('GET /organizations/{organization}/settings/idpsync/available-fields', { params: { organization } })
        : call('GET /settings/idpsync/available-fields'),
  },
  values: (claimField: string) => ({
    queryKey: ['claim values', organization ?? '', claimField],
    enabled: claimField !== '',
    queryFn: () =>
      organization
        ? call('GET /organizations/{organization}/settings/idpsync/field-values', {
            params: { organization },
            query: { claimField },
          })
        : call('GET /settings/idpsync/field-values', { query: { claimField } }),
  }),
});

/** The settings of one sync: the claim, the mapping of its values, and what they give. */
export function SyncForm({
  saved,
  organization,
  what,
  targets,
  fieldHelp,
  toggle,
  onSave,
}: {
  saved: Draft;
  /** Undefined: the claims of everyone. */
  organization?: string;
  /** Singular: group, role, organization. */
  what: string;
  targets: readonly Target[];
  fieldHelp: ReactNode;
  toggle?: { label: string; help: string };
  onSave: (draft: Draft) => Promise<unknown>;
}) {
  const [draft, setDraft] = useState(saved);
  const [given, setGiven] = useState('');
  const [gets, setGets] = useState('');
  const id = useId();
  const methods = useQuery(apiQuery('GET /users/authmethods', [])).data;
  const field = draft.field.trim();
  const queries = claims(organization);
  const fields = useQuery(queries.fields).data ?? [];
  const seen = useQuery(queries.values(field)).data ?? [];
  const save = useChange(() => onSave({ ...draft, field }), {
    ownError: true,
    onSuccess: () =>
      toast({ title: 'The sync was changed.', detail: 'It applies at the next sign-in of each person.' }),
  });
  const change = (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }));
  const add = () => {
    change({ mapping: withPair(draft.mapping, given.trim(), gets) });
    setGiven('');
    setGets('');
  };
  const preview = {
    mapping: draft.mapping,
    ...(draft.filter === undefined ? {} : { filter: draft.filter, autoCreate: draft.toggle === true }),
  };
  const rows = mappingRows(preview, seen, targets);
  const changed = JSON.stringify({ ...draft, field }) !== JSON.stringify(saved);
  return (
    <div className="flex flex-col gap-5">
      {methods && !methods.oidc.enabled && (
        <Notice
          title="OpenID Connect is not configured on this server."
          detail="These settings apply once people sign in with it (--oidc-issuer-url)."
        />
      )}
      <Section title="Claim">
        <div className="flex flex-col gap-4">
          <Field label="Name of the claim" help={fieldHelp} error={fieldError(save.error, 'field')}>
            <Input
              list={`${id}-fields`}
              value={draft.field}
              onChange={(event) => change({ field: event.target.value })}
            />
          </Field>
          <datalist id={`${id}-fields`}>
            {fields.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          {draft.filter !== undefined && (
            <Field
              label="Filter"
              help="A regular expression. Groups whose names it does not match are ignored."
              error={fieldError(save.error, 'regex_filter')}
            >
              <Input value={draft.filter} onChange={(event) => change({ filter: event.target.value })} />
            </Field>
          )}
          {toggle && (
            <Field label={toggle.label} help={toggle.help}>
              <Switch checked={draft.toggle === true} onChange={(on) => change({ toggle: on })} />
            </Field>
          )}
        </div>
      </Section>
      <Section
        title="Mapping"
        flush
        description="What each value of the claim gives. Values that people had at their last sign-in are listed, too."
      >
        <form
          className="flex flex-wrap items-end gap-2 border-line border-b px-4 pt-3 pb-4"
          onSubmit={(event) => {
            event.preventDefault();
            if (given.trim() && gets) add();
          }}
        >
          <div className="min-w-40 flex-1">
            <Field label="Value of the claim">
              <Input list={`${id}-values`} value={given} onChange={(event) => setGiven(event.target.value)} />
            </Field>
            <datalist id={`${id}-values`}>
              {seen.map((value) => (
                <option key={value} value={value} />
              ))}
            </datalist>
          </div>
          <div className="min-w-40 flex-1">
            <Field label={`Gives the ${what}`}>
              <Select value={gets} onChange={setGets} options={targets.map(({ value, label }) => ({ value, label }))} />
            </Field>
          </div>
          <Button type="submit" icon={Plus} disabled={!given.trim() || !gets}>
            Add
          </Button>
        </form>
        <MappingTable
          rows={rows}
          what={what}
          onRemove={(value, target) => change({ mapping: withoutPair(draft.mapping, value, target) })}
        />
      </Section>
      {isBeyondFields(save.error, ['field', 'regex_filter']) && <Notice tone="bad" {...errorText(save.error)} />}
      <form
        className="flex flex-wrap gap-2 empty:hidden"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <SaveButtons changed={changed} pending={save.isPending} onDiscard={() => setDraft(saved)} />
      </form>
    </div>
  );
}

function MappingTable({
  rows,
  what,
  onRemove,
}: {
  rows: readonly MappingRow[];
  what: string;
  onRemove: (value: string, target: string) => void;
}) {
  return (
    <Table
      label="Mapping"
      rows={rows}
      rowKey={(row) => row.value}
      empty={
        <EmptyState icon={TableProperties} title="No values yet">
          Values appear here once somebody has signed in with the claim.
        </EmptyState>
      }
      columns={[
        {
          name: 'Value',
          cell: (row) => (
            <span className="flex min-w-0 items-center gap-2">
              <span className="truncate font-mono text-sm" title={row.value}>
                {row.value}
              </span>
              {!row.seen && <Badge>Not seen</Badge>}
            </span>
          ),
        },
        {
          name: 'Gives',
          width: 'minmax(0,1.5fr)',
          cell: (row) =>
            row.gets.length === 0 ? (
              <span className="truncate text-muted">{row.otherwise}</span>
            ) : (
              <span className="flex flex-wrap gap-1.5">
                {row.gets.map(({ value, label }) => (
                  <span
                    key={value}
                    className="inline-flex max-w-full items-center gap-1 rounded-sm border border-line-strong bg-raised pl-1.5 text-sm"
                  >
                    <span className="truncate">{label ?? `A deleted ${what}`}</span>
                    <button
                      type="button"
                      aria-label={`Remove ${label ?? value} from ${row.value}`}
                      className="flex size-6 items-center justify-center rounded-sm text-muted hover:bg-hover hover:text-text"
                      onClick={() => onRemove(row.value, value)}
                    >
                      <X size={13} aria-hidden="true" />
                    </button>
                  </span>
                ))}
              </span>
            ),
        },
      ]}
    />
  );
}
