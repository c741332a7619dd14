import { useState } from 'react';
import { cx } from './classes.ts';

/** The picture of a person, template or organization, or its first letter. */
export function Avatar({
  name,
  src,
  size = 28,
  square = false,
}: {
  name: string;
  src?: string | undefined;
  size?: number;
  square?: boolean;
}) {
  const [broken, setBroken] = useState('');
  const shape = square ? 'rounded-md' : 'rounded-full';
  if (src && broken !== src) {
    return (
      <img
        src={src}
        alt=""
        width={size}
        height={size}
        onError={() => setBroken(src)}
        className={cx('shrink-0 object-contain', shape, !square && 'object-cover')}
        style={{ width: size, height: size }}
      />
    );
  }
  return (
    <span
      aria-hidden="true"
      className={cx(
        'flex shrink-0 select-none items-center justify-center bg-accent-soft font-semibold text-accent-text uppercase',
        shape,
      )}
      style={{ width: size, height: size, fontSize: size * 0.42 }}
    >
      {[...name][0] ?? '?'}
    </span>
  );
}
