import type { Region } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { RefreshCw } from 'lucide-react';
import { useEffect, useRef } from 'react';
import { type Latency, pickRegion, regionKey, regionName } from '../regions/choice.ts';
import { chooseRegion, measureRegions, proxiesQuery, useRegionState, useRegions } from '../regions/store.ts';
import { Avatar } from '../ui/avatar.tsx';
import { IconButton } from '../ui/button.tsx';
import { type Option, RadioGroup } from '../ui/choice.tsx';
import { Notice } from '../ui/notice.tsx';

const FASTEST = 'fastest';

function latencyText(latency: Latency | undefined, isMeasuring: boolean): string {
  if (!latency) return isMeasuring ? 'Measuring…' : 'Not measured yet';
  if ('ms' in latency) return `${Math.round(latency.ms)} ms`;
  return latency.failure === 'blocked'
    ? 'Reload this page to measure it.'
    : 'It does not answer this browser. Check your network.';
}

/** All regions with their latencies, to choose one. */
export default function RegionsPanel() {
  const { regions, region, missed } = useRegions();
  const { choice, latencies, measuring } = useRegionState();
  // why regions are not healthy
  const reports = new Map(useQuery(proxiesQuery).data?.regions.map(({ id, status }) => [id, status]));
  const ended = useRef<AbortController>(undefined);
  useEffect(() => () => ended.current?.abort(), []);
  const measure = () => {
    ended.current?.abort();
    ended.current = new AbortController();
    void measureRegions(regions, ended.current.signal);
  };
  const { region: fastest } = pickRegion(regions, { fastest: choice.fastest });
  const isKnown = regions.some((each) => regionKey(each) === choice.chosen);
  return (
    <div className="flex flex-col gap-3">
      <div className="flex items-start gap-2">
        <div className="min-w-0 flex-1">
          <h2 className="font-semibold">Region</h2>
          <p className="text-muted text-sm">Your apps, ports and terminals open there.</p>
        </div>
        <IconButton icon={RefreshCw} size="sm" label="Measure again" pending={measuring} onClick={measure} />
      </div>
      {missed && region && (
        <Notice
          tone="warn"
          title={`${regionName(missed)} is not healthy`}
          detail={`Until it is healthy again, they open in ${regionName(region)}.`}
        />
      )}
      <RadioGroup
        label="Region"
        value={isKnown ? choice.chosen! : FASTEST}
        onChange={(value) => chooseRegion(value === FASTEST ? undefined : value)}
        options={[
          {
            value: FASTEST,
            label: 'The fastest',
            help: fastest && `Now ${regionName(fastest)}`,
          },
          ...regions.map((each): Option => {
            const reasons = reports.get(each.id)?.report.errors ?? [];
            return {
              value: regionKey(each),
              label: <RegionLabel region={each} />,
              help: each.healthy
                ? latencyText(latencies.get(regionKey(each)), measuring)
                : ['Not healthy.', ...reasons].join(' '),
              disabled: !each.healthy,
            };
          }),
        ]}
      />
    </div>
  );
}

function RegionLabel({ region }: { region: Region }) {
  return (
    <span className="flex min-w-0 items-center gap-2">
      <Avatar square size={18} name={regionName(region)} src={region.icon_url} />
      <span className="wrap-anywhere">{regionName(region)}</span>
    </span>
  );
}
