import { type KeyboardEvent, type PointerEvent, useLayoutEffect, useRef, useState } from 'react';
import { formatDate } from '../util/time.ts';
import { labelled, runsOf, ticksUpTo } from './chart-scale.ts';
import { cx, type Tone } from './classes.ts';

const COLORS: Record<Tone, string> = {
  neutral: 'var(--text-3)',
  accent: 'var(--accent-text)',
  good: 'var(--good)',
  busy: 'var(--busy)',
  warn: 'var(--warn)',
  bad: 'var(--bad)',
};

const monthAndDay = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' });
/** The API names days as `2026-01-31`, or as the time of their beginning. */
const shortDay = (date: string) => monthAndDay.format(new Date(`${date.slice(0, 10)}T00:00:00Z`));

const longDay = (date: string) => formatDate(`${date.slice(0, 10)}T12:00:00`);

interface Chart {
  label: string;
  series: readonly { name: string; tone: Tone }[];
  /** A value for each series. Without a value, the line has a gap. */
  days: readonly { date: string; values: readonly (number | undefined)[] }[];
  stacked?: boolean;
  /** The text of a value. Default: the number. */
  format?: (value: number) => string;
}

/** Numbers by day, as areas. The same numbers are in a table for assistive technology. */
export function DayChart({ className, ...chart }: Chart & { className?: string }) {
  const { label, series, days, format = String } = chart;
  return (
    <figure className={cx('flex flex-col', className)}>
      {series.length > 1 && (
        <div aria-hidden="true" className="flex flex-wrap gap-x-4 pb-2 text-muted text-sm">
          {series.map(({ name, tone }) => (
            <span key={name} className="flex items-center gap-1.5">
              <span className="size-2 rounded-full" style={{ background: COLORS[tone] }} />
              {name}
            </span>
          ))}
        </div>
      )}
      <Plot {...chart} />
      <table className="sr-only">
        <caption>{label}</caption>
        <thead>
          <tr>
            <th scope="col">Day</th>
            {series.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {days.map(({ date, values }) => (
            <tr key={date}>
              <th scope="row">{shortDay(date)}</th>
              {values.map((value, at) => (
                <td key={series[at]?.name}>{value === undefined ? 'none' : format(value)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

const TOP = 4;
const RIGHT = 4;
/** The height of the line with the days. */
const BOTTOM = 30;
/** Half the width of a day's label, in pixels. */
const HALF_LABEL = 22;
const LABEL_GAP = 84;
const AXIS = { fill: 'var(--text-2)', fontSize: 12 };

/** The areas, and the values of the day under the pointer, or of the one that arrow keys chose. */
function Plot({ label, series, days, stacked = false, format = String }: Chart) {
  const box = useRef<HTMLDivElement>(null);
  const [{ width, height }, setSize] = useState({ width: 0, height: 0 });
  const [chosen, setChosen] = useState<number>();
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setSize(entry!.contentRect));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);

  const left = format === String ? 28 : 64;
  const last = days.length - 1;
  const tops = days.map(({ values }) => {
    let sum = 0;
    return series.map((_, at) => {
      const value = values[at];
      if (!stacked || value === undefined) return value;
      sum += value;
      return sum;
    });
  });
  const ticks = ticksUpTo(Math.max(0, ...tops.flat().filter((top) => top !== undefined)));
  const inner = Math.max(0, width - left - RIGHT);
  const floor = Math.max(TOP, height - BOTTOM);
  const x = (day: number) => left + (last > 0 ? (day / last) * inner : inner / 2);
  const y = (value: number) => floor - (value / ticks.at(-1)!) * (floor - TOP);
  const day = chosen === undefined ? undefined : days[Math.min(chosen, last)];
  const at = Math.min(chosen ?? 0, last);

  function choose(event: PointerEvent): void {
    const place = event.clientX - box.current!.getBoundingClientRect().left - left;
    setChosen(Math.max(0, Math.min(last, Math.round((place / Math.max(1, inner)) * last))));
  }

  function chooseByKey(event: KeyboardEvent): void {
    const from = chosen ?? last + 1;
    const to = {
      ArrowLeft: from - 1,
      ArrowDown: from - 1,
      ArrowRight: from + 1,
      ArrowUp: from + 1,
      Home: 0,
      End: last,
    };
    if (event.key === 'Escape') setChosen(undefined);
    else if (event.key in to) setChosen(Math.max(0, Math.min(last, to[event.key as keyof typeof to])));
    else return;
    event.preventDefault();
  }

  /** The area of one series between two gaps: its outline, then the outline of the series below it, backwards. */
  function area(one: number, first: number, end: number): string {
    const along = Array.from({ length: end - first + 1 }, (_, step) => first + step);
    const below = (place: number) => (stacked && one > 0 ? (tops[place]![one - 1] ?? 0) : 0);
    const edge = along.toReversed().map((place) => `L${x(place)},${y(below(place))}`);
    return `${line(one, first, end)}${edge.join('')}Z`;
  }

  const line = (one: number, first: number, end: number) =>
    Array.from({ length: end - first + 1 }, (_, step) => `${x(first + step)},${y(tops[first + step]![one]!)}`)
      .join('L')
      .replace(/^/, 'M');

  return (
    <div
      ref={box}
      role="slider"
      tabIndex={0}
      aria-label={`${label}: day`}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, last)}
      aria-valuenow={Math.max(0, chosen === undefined ? last : at)}
      aria-valuetext={day ? `${longDay(day.date)}: ${textOf(day.values)}` : 'No day chosen'}
      className="relative min-h-0 flex-1 touch-pan-y rounded-sm"
      onPointerMove={choose}
      onPointerDown={choose}
      onPointerLeave={() => setChosen(undefined)}
      onBlur={() => setChosen(undefined)}
      onKeyDown={chooseByKey}
    >
      <svg width={width} height={height} aria-hidden="true" className="absolute inset-0">
        {ticks.map((tick) => (
          <g key={tick}>
            <line x1={left} x2={left + inner} y1={y(tick)} y2={y(tick)} stroke="var(--line)" />
            <text {...AXIS} x={left - 8} y={Math.max(y(tick) + 4, 12)} textAnchor="end">
              {format(tick)}
            </text>
          </g>
        ))}
        {labelled(days.length, inner, LABEL_GAP).map((place) => (
          <text
            key={place}
            {...AXIS}
            x={Math.max(HALF_LABEL, Math.min(x(place), width - HALF_LABEL))}
            y={floor + 18}
            textAnchor="middle"
          >
            {shortDay(days[place]!.date)}
          </text>
        ))}
        {series.map(({ name, tone }, one) => (
          <g key={name} fill={COLORS[tone]} stroke={COLORS[tone]} strokeWidth={1.5}>
            {runsOf(tops.map((top) => top[one])).map(([first, end]) =>
              first === end ? (
                <circle key={first} cx={x(first)} cy={y(tops[first]![one]!)} r={1.5} />
              ) : (
                <g key={first}>
                  <path d={area(one, first, end)} fillOpacity={0.14} stroke="none" />
                  <path d={line(one, first, end)} fill="none" />
                </g>
              ),
            )}
          </g>
        ))}
        {day && (
          <g strokeWidth={2}>
            <line x1={x(at)} x2={x(at)} y1={TOP} y2={floor} stroke="var(--text-3)" strokeWidth={1} />
            {series.map(({ name, tone }, one) => {
              const top = tops[at]![one];
              return (
                top !== undefined && (
                  <circle key={name} cx={x(at)} cy={y(top)} r={4} fill={COLORS[tone]} stroke="var(--raised)" />
                )
              );
            })}
          </g>
        )}
      </svg>
      {day && (
        <div
          aria-hidden="true"
          className="pointer-events-none absolute top-1 z-10 flex flex-col gap-1 whitespace-nowrap rounded-md border border-line bg-raised px-2.5 py-2"
          style={x(at) > width / 2 ? { right: width - x(at) + 10 } : { left: x(at) + 10 }}
        >
          <span>{longDay(day.date)}</span>
          {series.map(({ name, tone }, one) => {
            const value = day.values[one];
            return (
              value !== undefined && (
                <span key={name} style={{ color: COLORS[tone] }}>
                  {name}: {format(value)}
                </span>
              )
            );
          })}
        </div>
      )}
    </div>
  );

  function textOf(values: readonly (number | undefined)[]): string {
    return series
      .map(({ name }, one) => `${name} ${values[one] === undefined ? 'none' : format(values[one])}`)
      .join(', ');
  }
}
