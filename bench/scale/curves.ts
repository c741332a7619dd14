// Pictures of curves as SVG, without a dependency: points, a line through them, axes that start at zero.
import type { Point } from './fit.ts';

export interface Series {
  name: string;
  points: readonly Point[];
}

export interface Chart {
  title: string;
  x: string;
  y: string;
  series: readonly Series[];
}

export type Theme = 'light' | 'dark';

/** The colors of docs/images/processes-*.svg. */
const COLORS: Record<Theme, { page: string; text: string; muted: string; line: string; series: readonly string[] }> = {
  light: {
    page: '#ffffff',
    text: '#1f2328',
    muted: '#59636e',
    line: '#d1d9e0',
    series: ['#0969da', '#bc4c00', '#1a7f37'],
  },
  dark: {
    page: '#0d1117',
    text: '#f0f6fc',
    muted: '#9198a1',
    line: '#3d444d',
    series: ['#4493f8', '#db6d28', '#3fb950'],
  },
};
const WIDTH = 640;
const HEIGHT = 320;
const PLOT = { left: 64, right: WIDTH - 24, top: 72, bottom: HEIGHT - 52 };
const TICKS = 5;
/** Of a small character, on average. */
const CHARACTER = 6.6;

/** A step of 1, 2 or 5 times a power of ten, so that at most `TICKS` steps reach the highest value. */
export function stepOf(highest: number): number {
  const rough = highest / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * (1 - 1e-9))!;
}

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
const numberText = (value: number) => value.toLocaleString('en-US', { maximumFractionDigits: 3 });

/** @throws Error if a series has no point, or a point that is not a number from zero */
export function drawChart({ title, x, y, series }: Chart, theme: Theme): string {
  const points = series.flatMap((one) => one.points);
  if (series.some((one) => one.points.length === 0)) throw new Error(`${title}: a series has no points`);
  if (!points.every((point) => point.x >= 0 && point.y >= 0))
    throw new Error(`${title}: a point is not a number from zero`);
  const colors = COLORS[theme];
  const steps = {
    x: stepOf(Math.max(...points.map((point) => point.x))),
    y: stepOf(Math.max(...points.map((point) => point.y))),
  };
  const end = {
    x: Math.ceil(Math.max(...points.map((point) => point.x)) / steps.x - 1e-9) * steps.x,
    y: Math.ceil(Math.max(...points.map((point) => point.y)) / steps.y - 1e-9) * steps.y,
  };
  const atX = (value: number) => PLOT.left + (value / end.x) * (PLOT.right - PLOT.left);
  const atY = (value: number) => PLOT.bottom - (value / end.y) * (PLOT.bottom - PLOT.top);
  const text = (at: [number, number], content: string, extra: string) =>
    `<text x="${at[0].toFixed(1)}" y="${at[1].toFixed(1)}" ${extra}>${escaped(content)}</text>`;
  const ticks = (step: number, last: number) =>
    Array.from({ length: Math.round(last / step) + 1 }, (_, i) => Number((i * step).toPrecision(12)));
  const small = `font-size="12" fill="${colors.muted}"`;
  const parts = [
    `<rect width="${WIDTH}" height="${HEIGHT}" rx="8" fill="${colors.page}"/>`,
    text([24, 30], title, `font-size="15" font-weight="600" fill="${colors.text}"`),
    ...ticks(steps.y, end.y).flatMap((value) => [
      `<path d="M${PLOT.left} ${atY(value).toFixed(1)}H${PLOT.right}" stroke="${colors.line}"/>`,
      text([PLOT.left - 8, atY(value) + 4], numberText(value), `${small} text-anchor="end"`),
    ]),
    ...ticks(steps.x, end.x).map((value) =>
      text([atX(value), PLOT.bottom + 18], numberText(value), `${small} text-anchor="middle"`),
    ),
    text([24, 54], y, small),
    text([(PLOT.left + PLOT.right) / 2, HEIGHT - 12], x, `${small} text-anchor="middle"`),
  ];
  let legend = PLOT.right;
  for (const [i, { name, points: own }] of [...series.entries()].toReversed()) {
    const color = colors.series[i % colors.series.length]!;
    const sorted = own.toSorted((a, b) => a.x - b.x);
    const path = sorted.map((point) => `${atX(point.x).toFixed(1)} ${atY(point.y).toFixed(1)}`).join('L');
    legend -= name.length * CHARACTER;
    parts.push(
      `<path d="M${path}" fill="none" stroke="${color}" stroke-width="2" stroke-linejoin="round"/>`,
      ...sorted.map((p) => `<circle cx="${atX(p.x).toFixed(1)}" cy="${atY(p.y).toFixed(1)}" r="3.5" fill="${color}"/>`),
    );
    // one series needs no legend
    if (series.length > 1) {
      parts.push(
        `<circle cx="${(legend - 8).toFixed(1)}" cy="50" r="4" fill="${color}"/>`,
        text([legend, 54], name, `font-size="12" fill="${colors.text}"`),
      );
    }
    legend -= 28;
  }
  const label = escaped(`${title}: ${series.map(({ name }) => name).join(', ')}. ${y}, ${x}.`);
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="-apple-system,Segoe UI,Helvetica,Arial,sans-serif" role="img" aria-label="${label}">`;
  return `${[head, ...parts, '</svg>'].join('\n')}\n`;
}
