import { Area, AreaChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts';
import { formatDate } from '../util/time.ts';
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

/** Numbers by day, as areas. The same numbers are in a table for assistive technology. Load it lazily: it is large. */
export function DayChart({
  label,
  series,
  days,
  stacked = false,
  format = String,
  className,
}: {
  label: string;
  series: readonly { name: string; tone: Tone }[];
  /** A value for each series. Without a value, the line has a gap. */
  days: readonly { date: string; values: readonly (number | undefined)[] }[];
  stacked?: boolean;
  /** The text of a value. Default: the number. */
  format?: (value: number) => string;
  className?: string;
}) {
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
      <div aria-hidden="true" className="min-h-0 flex-1">
        <ResponsiveContainer width="100%" height="100%">
          <AreaChart data={[...days]} margin={{ top: 4, right: 4, bottom: 0, left: 0 }} accessibilityLayer={false}>
            <CartesianGrid vertical={false} stroke="var(--line)" />
            <XAxis
              dataKey="date"
              tickFormatter={shortDay}
              minTickGap={40}
              tickLine={false}
              axisLine={false}
              tick={{ fill: 'var(--text-2)', fontSize: 12 }}
            />
            <YAxis
              width={format === String ? 28 : 64}
              tickFormatter={format}
              allowDecimals={false}
              tickLine={false}
              axisLine={false}
              tick={{ fill: 'var(--text-2)', fontSize: 12 }}
            />
            <Tooltip
              isAnimationActive={false}
              formatter={(value) => format(Number(value))}
              labelFormatter={(date) => formatDate(`${String(date).slice(0, 10)}T12:00:00`)}
              contentStyle={{
                background: 'var(--raised)',
                border: '1px solid var(--line)',
                borderRadius: 6,
                color: 'var(--text-1)',
              }}
            />
            {series.map(({ name, tone }, at) => (
              <Area
                key={name}
                name={name}
                dataKey={(day: { values: readonly (number | undefined)[] }) => day.values[at]}
                {...(stacked ? { stackId: 'all' } : {})}
                stroke={COLORS[tone]}
                fill={COLORS[tone]}
                fillOpacity={0.14}
                strokeWidth={1.5}
                isAnimationActive={false}
              />
            ))}
          </AreaChart>
        </ResponsiveContainer>
      </div>
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
