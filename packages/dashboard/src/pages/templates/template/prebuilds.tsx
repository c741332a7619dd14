import type { PrebuildPool } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { call } from '../../../api/client.ts';
import { useSitePermissions } from '../../../api/permissions.ts';
import { useChange } from '../../../api/query.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Switch } from '../../../ui/choice.tsx';
import { Link } from '../../../ui/link.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section, useTitle } from '../../../ui/page.tsx';
import { EmptyState, ErrorView } from '../../../ui/states.tsx';
import { type Column, Table } from '../../../ui/table.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDateTime, formatRelative, useNow } from '../../../util/time.ts';
import { nameOf, poolsQuery, useTemplate } from '../data.ts';

/** The pools of prebuilt workspaces of a template. */
export default function TemplatePrebuildsPage() {
  const template = useTemplate();
  const query = useQuery(poolsQuery(template.id));
  const { updateDeploymentConfig: mayPause = false } = useSitePermissions();
  const now = useNow();
  useTitle('Prebuilds', nameOf(template));
  if (query.isError) return <ErrorView error={query.error} retry={() => void query.refetch()} />;
  const pools = query.data?.pools;
  const columns: Column<PrebuildPool>[] = [
    {
      name: 'Preset',
      width: 'minmax(0,3fr)',
      cell: (pool) => (
        <div className="min-w-0">
          <div className="truncate font-medium">{pool.preset_name}</div>
          <div className="truncate text-muted text-sm">{pool.template_version_name}</div>
        </div>
      ),
    },
    {
      name: 'Ready',
      numeric: true,
      width: '4.5rem',
      cell: ({ ready, desired }) => (
        <Badge tone={ready >= desired ? 'good' : 'neutral'}>
          {ready} of {desired}
        </Badge>
      ),
    },
    {
      name: 'Starting',
      numeric: true,
      width: '5rem',
      wideOnly: true,
      cell: ({ starting }) => <Count value={starting} />,
    },
    {
      name: 'Failed',
      numeric: true,
      width: '3.5rem',
      cell: ({ failed }) => (failed > 0 ? <Badge tone="bad">{failed}</Badge> : <Count value={0} />),
    },
    { name: 'Stopped', numeric: true, width: '5rem', wideOnly: true, cell: ({ stopped }) => <Count value={stopped} /> },
    {
      name: 'Next change',
      width: 'minmax(0,13rem)',
      wideOnly: true,
      cell: ({ next_change: change }) =>
        change ? (
          <span className="truncate">
            {change.desired} from <time dateTime={change.at}>{formatDateTime(change.at)}</time>
          </span>
        ) : (
          <span className="text-muted">None</span>
        ),
    },
  ];
  return (
    <>
      {query.data?.paused && (
        <Notice
          tone="warn"
          title="Prebuilt workspaces are paused"
          detail="The server neither creates nor deletes any, for all templates. People can still claim the ones that are ready."
        />
      )}
      {pools?.map((pool) => (
        <PoolNotice key={pool.preset_id} pool={pool} now={now} />
      ))}
      <Section
        flush
        title="Prebuilt workspaces"
        description="The server keeps these workspaces ready. A person who creates a workspace with the preset gets one immediately."
        actions={<Link to={paths.workspaces(`owner:prebuilds template:${template.name}`)}>Show the workspaces</Link>}
      >
        <Table
          label="Pools of prebuilt workspaces"
          columns={columns}
          rows={pools}
          loading={query.isPending}
          rowKey={({ preset_id }) => preset_id}
          empty={
            <EmptyState title="No prebuilt workspaces">
              Add a prebuilds block to a coder_workspace_preset of the template, and publish the version.
            </EmptyState>
          }
        />
      </Section>
      {query.data && mayPause && <Pause paused={query.data.paused} />}
    </>
  );
}

const Count = ({ value }: { value: number }) => <span className={value === 0 ? 'text-muted' : ''}>{value}</span>;

function PoolNotice({ pool, now }: { pool: PrebuildPool; now: number }) {
  const { preset_name: name, limit_reached: limited, error, next_attempt_at: next } = pool;
  if (limited) {
    return (
      <Notice
        tone="bad"
        title={`Too many builds of "${name}" failed`}
        detail="The server creates no more workspaces for this preset. Look at the log of the failed workspace, and publish a version that works."
      />
    );
  }
  if (!error && !next) return null;
  return (
    <Notice
      tone="warn"
      title={error ? `A workspace of "${name}" cannot be built` : `The last build of "${name}" failed`}
      detail={[error, next && `The next attempt comes ${formatRelative(next, now)}.`].filter(Boolean).join(' ')}
    />
  );
}

/** Pauses the pools of the whole deployment. */
function Pause({ paused }: { paused: boolean }) {
  const change = useChange(
    (reconciliation_paused: boolean) => call('PUT /prebuilds/settings', { body: { reconciliation_paused } }),
    { refetch: ['GET /templates/{template}/prebuilds'] },
  );
  return (
    <Section>
      <div className="flex items-center gap-4">
        <div className="min-w-0 flex-1">
          <h2 className="font-semibold">Pause prebuilt workspaces</h2>
          <p className="text-muted text-sm">
            For all templates, for example while provisioner daemons have too much to do.
          </p>
        </div>
        <Switch
          label="Pause prebuilt workspaces"
          checked={change.isPending ? change.variables : paused}
          onChange={(next) => change.mutate(next)}
        />
      </div>
    </Section>
  );
}
