import { ChevronDown } from 'lucide-react';
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { regionKey, regionName } from '../regions/choice.ts';
import { keepMeasuring, useRegionState, useRegions } from '../regions/store.ts';
import { Avatar } from '../ui/avatar.tsx';
import { Popover } from '../ui/popover.tsx';
import { SkeletonLines } from '../ui/states.tsx';
import { toast } from '../ui/toast.tsx';

const loadPanel = () => import('./regions-panel.tsx');
const Panel = lazy(loadPanel);

/** The button in the frame with the region in use and its latency, and the list of all regions. */
export function RegionsButton() {
  const { regions, region, missed } = useRegions();
  const { latencies } = useRegionState();
  const [open, setOpen] = useState(false);
  const several = regions.length > 1;
  const current = useRef(regions);
  current.current = regions;
  // measured again when a region appears, moves or recovers
  const measured = regions.map((each) => `${regionKey(each)} ${each.path_app_url} ${each.healthy}`).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: `measured` stands for the regions
  useEffect(() => (several ? keepMeasuring(current.current) : undefined), [several, measured]);
  useNotice(region && regionName(region), missed && regionName(missed), several);
  if (!several || !region) return null;
  const latency = latencies.get(regionKey(region));
  const time = latency && 'ms' in latency ? `${Math.round(latency.ms)} ms` : undefined;
  const label = [`Region: ${regionName(region)}`, time, missed && `${regionName(missed)} is not healthy`];
  return (
    <Popover
      open={open}
      onOpenChange={setOpen}
      trigger={
        <button
          type="button"
          aria-label={label.filter(Boolean).join(', ')}
          onPointerEnter={() => void loadPanel()}
          className="relative flex h-8 shrink-0 items-center gap-1.5 rounded-md px-1.5 text-muted transition-colors hover:bg-hover hover:text-text"
        >
          <Avatar square size={18} name={regionName(region)} src={region.icon_url} />
          <span className="hidden min-w-10 text-right text-sm tabular-nums lg:inline">{time}</span>
          <ChevronDown size={14} aria-hidden="true" />
          {missed && <span aria-hidden="true" className="absolute top-0.5 left-5 size-2 rounded-full bg-warn" />}
        </button>
      }
    >
      <Suspense fallback={<SkeletonLines lines={4} />}>
        <Panel />
      </Suspense>
    </Popover>
  );
}

/** Shows a message when the chosen region stops being healthy while the page is open. */
function useNotice(used: string | undefined, missed: string | undefined, isKnown: boolean): void {
  const before = useRef<{ missed: string | undefined }>(undefined);
  useEffect(() => {
    if (!isKnown) return;
    const isNew = before.current !== undefined && before.current.missed !== missed;
    before.current = { missed };
    if (isNew && missed !== undefined)
      toast({
        tone: 'warn',
        title: `The region ${missed} is not healthy`,
        detail: `Apps, ports and terminals open in ${used} until it is healthy again.`,
      });
  }, [used, missed, isKnown]);
}
