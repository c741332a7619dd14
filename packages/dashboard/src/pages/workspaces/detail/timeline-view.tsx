import type { WorkspaceBuild } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { ChartGantt, ChevronDown, ChevronRight, Table2 } from 'lucide-react';
import { Fragment, useState } from 'react';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { formatClock, formatDuration, formatExact, useNow } from '../../../util/time.ts';
import { timingsQuery } from '../queries.ts';
import { axisTicks, type Step, timelineSteps } from './timeline.ts';

/** The parts of longer stages are hidden at first. */
const FEW_PARTS = 12;

/** The part of the width that the axis takes. The rest is for the durations behind the last bars. */
const AXIS_PERCENT = 88;
const percent = (time: number, length: number) => (time / length) * AXIS_PERCENT;

const BARS: Record<Step['kind'], string> = {
  queue: 'bg-faint',
  terraform: 'bg-accent',
  resource: 'bg-accent/60',
  agent: 'bg-good',
  script: 'bg-busy',
};
const KINDS: readonly [Step['kind'], string][] = [
  ['queue', 'Queue'],
  ['terraform', 'Terraform'],
  ['agent', 'Agent'],
  ['script', 'Scripts'],
];

/** When each step of a build ran: as a picture, or as a table with the exact times. */
export function Timeline({ build }: { build: WorkspaceBuild }) {
  const timings = useQuery(timingsQuery(build));
  const [asTable, setAsTable] = useState(false);
  return (
    <QueryView query={timings} loading={<SkeletonLines lines={4} />}>
      {(data) => (
        <LiveTimeline
          running={!build.job.completed_at}
          steps={(now) => timelineSteps(build, data, now)}
          asTable={asTable}
          onToggle={() => setAsTable(!asTable)}
        />
      )}
    </QueryView>
  );
}

function LiveTimeline({
  running,
  steps: stepsAt,
  asTable,
  onToggle,
}: {
  running: boolean;
  steps: (now: number) => Step[];
  asTable: boolean;
  onToggle: () => void;
}) {
  const now = useNow(running ? 1_000 : 600_000);
  const steps = stepsAt(now);
  const start = Math.min(...steps.map((step) => step.start));
  const length = Math.max(1, Math.max(...steps.map((step) => step.end)) - start);
  const total = `The build took ${formatDuration(length)} until everything was ready.`;
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <ul className="flex flex-1 flex-wrap gap-x-4 gap-y-1 text-muted text-sm">
          {KINDS.filter(([kind]) => steps.some((step) => step.kind === kind)).map(([kind, name]) => (
            <li key={kind} className="flex items-center gap-1.5">
              <span aria-hidden="true" className={cx('size-2.5 rounded-xs', BARS[kind])} />
              {name}
            </li>
          ))}
        </ul>
        <Button size="sm" look="ghost" icon={asTable ? ChartGantt : Table2} onClick={onToggle}>
          {asTable ? 'Show the picture' : 'Show as a table'}
        </Button>
      </div>
      {asTable ? (
        <StepTable steps={steps} />
      ) : (
        <Picture steps={steps} start={start} length={length} label={running ? 'The build so far' : total} />
      )}
    </div>
  );
}

function Picture({ steps, start, length, label }: { steps: Step[]; start: number; length: number; label: string }) {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const partsOf = (id: string) => steps.filter((step) => step.parent === id);
  const isOpen = (step: Step) => {
    const parts = partsOf(step.id);
    const opens = step.id === 'apply' && parts.length <= FEW_PARTS;
    return parts.length > 0 && opens !== toggled.has(step.id);
  };
  const toggle = (id: string) => {
    const next = new Set(toggled);
    if (!next.delete(id)) next.add(id);
    setToggled(next);
  };
  const shown = steps.flatMap((step) => (step.parent ? [] : isOpen(step) ? [step, ...partsOf(step.id)] : [step]));
  const ticks = axisTicks(length);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls in a narrow window
    <figure aria-label={label} tabIndex={0} className="overflow-x-auto">
      <div className="grid min-w-md grid-cols-[minmax(7rem,14rem)_minmax(0,1fr)] text-sm">
        <div />
        <div aria-hidden="true" className="relative h-6 border-line border-b text-faint text-xs">
          {ticks.map((tick) => (
            <span
              key={tick}
              className={cx('absolute bottom-1 whitespace-nowrap', tick > 0 && '-translate-x-1/2')}
              style={{ left: `${percent(tick, length)}%` }}
            >
              {tick === 0 ? '0' : formatDuration(tick)}
            </span>
          ))}
        </div>
        {shown.map((step) => {
          const parts = partsOf(step.id).length;
          const open = isOpen(step);
          const Chevron = open ? ChevronDown : ChevronRight;
          return (
            <Fragment key={step.id}>
              <div className={cx('flex h-7 min-w-0 items-center pr-3', step.parent && 'pl-5 text-muted')}>
                {parts > 0 ? (
                  <button
                    type="button"
                    aria-expanded={open}
                    onClick={() => toggle(step.id)}
                    className="-ml-1 flex min-w-0 items-center gap-0.5 rounded-sm px-0.5 hover:bg-hover"
                  >
                    <Chevron size={14} aria-hidden="true" className="shrink-0 text-muted" />
                    <span className="truncate">{step.name}</span>
                    <span className="ml-1 text-faint text-xs">{parts}</span>
                  </button>
                ) : (
                  <span className="truncate" title={step.name}>
                    {step.name}
                    {step.detail === 'provisioned' && <span className="text-faint"> {step.detail}</span>}
                  </span>
                )}
              </div>
              <Bar step={step} start={start} length={length} ticks={ticks} />
            </Fragment>
          );
        })}
      </div>
    </figure>
  );
}

function Bar({ step, start, length, ticks }: { step: Step; start: number; length: number; ticks: readonly number[] }) {
  const left = percent(step.start - start, length);
  const width = percent(step.end - step.start, length);
  const duration = formatDuration(step.end - step.start);
  const title = [step.name, step.detail, duration, formatClock(step.start)].filter(Boolean).join(' · ');
  return (
    <div className="relative h-7" title={title}>
      {ticks.map((tick) => (
        <span
          key={tick}
          aria-hidden="true"
          className="absolute inset-y-0 w-px bg-line"
          style={{ left: `${percent(tick, length)}%` }}
        />
      ))}
      <span
        aria-hidden="true"
        className={cx(
          'absolute top-1.5 h-4 min-w-0.5 rounded-xs',
          step.state === 'failed' ? 'bg-bad' : BARS[step.kind],
          step.state === 'running' && 'animate-pulse',
        )}
        style={{ left: `${left}%`, width: `${width}%` }}
      />
      <span
        className="absolute top-1 whitespace-nowrap px-1.5 text-muted text-xs leading-5 tabular-nums"
        style={{ left: `${left + width}%` }}
      >
        {duration}
      </span>
    </div>
  );
}

function StepTable({ steps }: { steps: readonly Step[] }) {
  const head = 'px-3 py-1.5 text-left font-normal text-muted';
  return (
    <div
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
      tabIndex={0}
      role="region"
      aria-label="Times of the build"
      className="max-h-112 overflow-auto rounded-md border border-line"
    >
      <table className="w-full text-sm">
        <thead className="sticky top-0 bg-surface">
          <tr>
            <th className={head}>Step</th>
            <th className={head}>Details</th>
            <th className={head}>Started</th>
            <th className={head}>Ended</th>
            <th className={cx(head, 'text-right')}>Duration</th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <tr key={step.id} className="border-line border-t">
              <td className={cx('wrap-anywhere px-3 py-1.5', step.parent && 'pl-7')}>{step.name}</td>
              <td className="px-3 py-1.5 text-muted">{step.state === 'running' ? 'Under way' : step.detail}</td>
              <td className="whitespace-nowrap px-3 py-1.5 tabular-nums" title={formatExact(step.start)}>
                {exactClock(step.start)}
              </td>
              <td className="whitespace-nowrap px-3 py-1.5 tabular-nums" title={formatExact(step.end)}>
                {step.state === 'running' ? '' : exactClock(step.end)}
              </td>
              <td className="whitespace-nowrap px-3 py-1.5 text-right tabular-nums">
                {formatDuration(step.end - step.start)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
});
const exactClock = (time: number) => clock.format(time);
