import type { InputHTMLAttributes } from 'react';
import { cx } from './classes.ts';

/** A number in a range. Browsers draw their own track in a color that glares in the dark theme. */
export function Slider({
  min,
  max,
  value,
  className,
  ...more
}: Omit<InputHTMLAttributes<HTMLInputElement>, 'type' | 'min' | 'max' | 'value'> & {
  min: number;
  max: number;
  value: number;
}) {
  const share = max > min ? Math.min(1, Math.max(0, (value - min) / (max - min))) : 0;
  return (
    <input
      {...more}
      type="range"
      min={min}
      max={max}
      value={value}
      className={cx('slider', className)}
      // the thumb of 1 rem stays inside the track
      style={{ '--filled': `calc(0.5rem + ${share} * (100% - 1rem))` } as React.CSSProperties}
    />
  );
}
