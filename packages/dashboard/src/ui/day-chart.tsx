import { type KeyboardEvent, type PointerEvent, type RefObject, useLayoutEffect, useRef, useState } from 'react';
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

/** Where the values of a chart are in a picture of this size, in pixels. */
function scaleOf({ series, days, stacked, format }: Chart, { width, height }: { width: number; height: number }) {
  const left = format === undefined ? 28 : 64;
  const last = days.length - 1;
  /** The upper end of each series, by day. */
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
  return {
    width,
    height,
    left,
    inner,
    floor,
    /** The index of the last day. */
    last,
    tops,
    ticks,
    x: (day: number) => left + (last > 0 ? (day / last) * inner : inner / 2),
    y: (value: number) => floor - (value / ticks.at(-1)!) * (floor - TOP),
    /** The day at a place between the left and the right edge. */
    dayAt: (place: number) => Math.max(0, Math.min(last, Math.round(((place - left) / Math.max(1, inner)) * last))),
  };
}

type Scale = ReturnType<typeof scaleOf>;

/** The size of a box, as it changes. */
function useSize(box: RefObject<HTMLElement | null>) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setSize(entry!.contentRect));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [box]);
  return size;
}

/** The day that the pointer or an arrow key has chosen, and the events of the box that choose it. */
function useChosenDay(box: RefObject<HTMLElement | null>, { last, dayAt }: Scale) {
  const [chosen, setChosen] = useState<number>();
  const choose = (event: PointerEvent) => setChosen(dayAt(event.clientX - box.current!.getBoundingClientRect().left));
  const chooseByKey = (event: KeyboardEvent) => {
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
  };
  const forget = () => setChosen(undefined);
  return {
    // there may be fewer days than when it was chosen
    at: chosen === undefined || last < 0 ? undefined : Math.min(chosen, last),
    events: {
      onPointerMove: choose,
      onPointerDown: choose,
      onPointerLeave: forget,
      onBlur: forget,
      onKeyDown: chooseByKey,
    },
  };
}

/** The areas, and the values of the day under the pointer, or of the one that arrow keys chose. */
function Plot(chart: Chart) {
  const box = useRef<HTMLDivElement>(null);
  const scale = scaleOf(chart, useSize(box));
  const { at, events } = useChosenDay(box, scale);
  return (
    <div
      ref={box}
      role="slider"
      tabIndex={0}
      aria-label={`${chart.label}: day`}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, scale.last)}
      aria-valuenow={Math.max(0, at ?? scale.last)}
      aria-valuetext={at === undefined ? 'No day chosen' : textOf(chart, at)}
      className="relative min-h-0 flex-1 touch-pan-y rounded-sm"
      {...events}
    >
      <svg width={scale.width} height={scale.height} aria-hidden="true" className="absolute inset-0">
        <Axes chart={chart} scale={scale} />
        {chart.series.map(({ name, tone }, one) => (
          <Areas key={name} one={one} tone={tone} scale={scale} stacked={chart.stacked ?? false} />
        ))}
        {at !== undefined && <Marks chart={chart} scale={scale} at={at} />}
      </svg>
      {at !== undefined && <Values chart={chart} scale={scale} at={at} />}
    </div>
  );
}

/** The values of a day in words. */
function textOf({ series, days, format = String }: Chart, at: number): string {
  const { date, values } = days[at]!;
  const texts = series.map(({ name }, one) => `${name} ${values[one] === undefined ? 'none' : format(values[one])}`);
  return `${longDay(date)}: ${texts.join(', ')}`;
}

/** The lines of the values, and the names of some days. */
function Axes({ chart: { days, format = String }, scale }: { chart: Chart; scale: Scale }) {
  const { width, left, inner, floor, ticks, x, y } = scale;
  return (
    <>
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
    </>
  );
}

/** The areas of one series: one between two gaps. */
function Areas({ one, tone, scale, stacked }: { one: number; tone: Tone; scale: Scale; stacked: boolean }) {
  const { tops, x, y } = scale;
  const placesOf = (first: number, end: number) => Array.from({ length: end - first + 1 }, (_, step) => first + step);
  const line = (first: number, end: number) =>
    `M${placesOf(first, end)
      .map((place) => `${x(place)},${y(tops[place]![one]!)}`)
      .join('L')}`;
  /** The outline of the area, then the outline of the series below it, backwards. */
  const area = (first: number, end: number) => {
    const below = (place: number) => (stacked && one > 0 ? (tops[place]![one - 1] ?? 0) : 0);
    const edge = placesOf(first, end)
      .reverse()
      .map((place) => `L${x(place)},${y(below(place))}`);
    return `${line(first, end)}${edge.join('')}Z`;
  };
  return (
    <g fill={COLORS[tone]} stroke={COLORS[tone]} strokeWidth={1.5}>
      {runsOf(tops.map((top) => top[one])).map(([first, end]) =>
        first === end ? (
          <circle key={first} cx={x(first)} cy={y(tops[first]![one]!)} r={1.5} />
        ) : (
          <g key={first}>
            <path d={area(first, end)} fillOpacity={0.14} stroke="none" />
            <path d={line(first, end)} fill="none" />
          </g>
        ),
      )}
    </g>
  );
}

/** The line of a day, and a point on each series. */
function Marks({ chart: { series }, scale: { tops, floor, x, y }, at }: { chart: Chart; scale: Scale; at: number }) {
  return (
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
  );
}

/** The values of a day, next to its line. */
function Values({ chart, scale: { width, x }, at }: { chart: Chart; scale: Scale; at: number }) {
  const { series, days, format = String } = chart;
  const { date, values } = days[at]!;
  return (
    <div
      aria-hidden="true"
      className="pointer-events-none absolute top-1 z-10 flex flex-col gap-1 whitespace-nowrap rounded-md border border-line bg-raised px-2.5 py-2"
      style={x(at) > width / 2 ? { right: width - x(at) + 10 } : { left: x(at) + 10 }}
    >
      <span>{longDay(date)}</span>
      {series.map(({ name, tone }, one) => {
        const value = values[one];
        return (
          value !== undefined && (
            <span key={name} style={{ color: COLORS[tone] }}>
              {name}: {format(value)}
            </span>
          )
        );
      })}
    </div>
  );
}
