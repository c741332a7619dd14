import { type Static, Type } from 'typebox';
import { named, stringEnum, Timestamp, Uuid } from './kit.ts';
import { TemplateVersionParameterOption } from './templates.ts';

export const InsightsReportInterval = named('InsightsReportInterval', stringEnum(['day', 'week']));
export type InsightsReportInterval = Static<typeof InsightsReportInterval>;

/** Ours. The durations of the builds that ended on a day, in ms. Days without builds are absent. */
export const BuildTimesResponse = named(
  'BuildTimesResponse',
  Type.Object({
    entries: Type.Array(
      Type.Object({
        /** `2026-01-31`. */
        date: Type.String(),
        count: Type.Integer(),
        p50: Type.Number(),
        p95: Type.Number(),
      }),
    ),
    tz_hour_offset: Type.Integer(),
  }),
);
export type BuildTimesResponse = Static<typeof BuildTimesResponse>;

export const TemplateAppsType = named('TemplateAppsType', stringEnum(['builtin', 'app']));
export type TemplateAppsType = Static<typeof TemplateAppsType>;

export const TemplateAppUsage = named(
  'TemplateAppUsage',
  Type.Object({
    display_name: Type.String(),
    icon: Type.String(),
    seconds: Type.Integer(),
    slug: Type.String(),
    template_ids: Type.Array(Uuid),
    times_used: Type.Integer(),
    type: TemplateAppsType,
  }),
);
export type TemplateAppUsage = Static<typeof TemplateAppUsage>;

export const TemplateParameterValue = named(
  'TemplateParameterValue',
  Type.Object({
    count: Type.Integer(),
    value: Type.String(),
  }),
);
export type TemplateParameterValue = Static<typeof TemplateParameterValue>;

export const TemplateParameterUsage = named(
  'TemplateParameterUsage',
  Type.Object({
    description: Type.String(),
    display_name: Type.String(),
    name: Type.String(),
    options: Type.Optional(Type.Array(TemplateVersionParameterOption)),
    template_ids: Type.Array(Uuid),
    type: Type.String(),
    values: Type.Array(TemplateParameterValue),
  }),
);
export type TemplateParameterUsage = Static<typeof TemplateParameterUsage>;

export const TemplateInsightsReport = named(
  'TemplateInsightsReport',
  Type.Object({
    active_users: Type.Integer(),
    apps_usage: Type.Array(TemplateAppUsage),
    end_time: Timestamp,
    parameters_usage: Type.Array(TemplateParameterUsage),
    start_time: Timestamp,
    template_ids: Type.Array(Uuid),
  }),
);
export type TemplateInsightsReport = Static<typeof TemplateInsightsReport>;

export const TemplateInsightsIntervalReport = named(
  'TemplateInsightsIntervalReport',
  Type.Object({
    active_users: Type.Integer(),
    end_time: Timestamp,
    interval: InsightsReportInterval,
    start_time: Timestamp,
    template_ids: Type.Array(Uuid),
  }),
);
export type TemplateInsightsIntervalReport = Static<typeof TemplateInsightsIntervalReport>;

export const TemplateInsightsResponse = named(
  'TemplateInsightsResponse',
  Type.Object({
    interval_reports: Type.Optional(Type.Array(TemplateInsightsIntervalReport)),
    report: Type.Optional(TemplateInsightsReport),
  }),
);
export type TemplateInsightsResponse = Static<typeof TemplateInsightsResponse>;

export const UserActivity = named(
  'UserActivity',
  Type.Object({
    avatar_url: Type.String(),
    seconds: Type.Integer(),
    template_ids: Type.Array(Uuid),
    user_id: Uuid,
    username: Type.String(),
  }),
);
export type UserActivity = Static<typeof UserActivity>;

export const UserActivityInsightsResponse = named(
  'UserActivityInsightsResponse',
  Type.Object({
    report: named(
      'UserActivityInsightsReport',
      Type.Object({
        end_time: Timestamp,
        start_time: Timestamp,
        template_ids: Type.Array(Uuid),
        users: Type.Array(UserActivity),
      }),
    ),
  }),
);
export type UserActivityInsightsResponse = Static<typeof UserActivityInsightsResponse>;

export const ConnectionLatency = named(
  'ConnectionLatency',
  Type.Object({
    p50: Type.Number(),
    p95: Type.Number(),
  }),
);
export type ConnectionLatency = Static<typeof ConnectionLatency>;

export const UserLatency = named(
  'UserLatency',
  Type.Object({
    avatar_url: Type.String(),
    latency_ms: ConnectionLatency,
    template_ids: Type.Array(Uuid),
    user_id: Uuid,
    username: Type.String(),
  }),
);
export type UserLatency = Static<typeof UserLatency>;

export const UserLatencyInsightsResponse = named(
  'UserLatencyInsightsResponse',
  Type.Object({
    report: named(
      'UserLatencyInsightsReport',
      Type.Object({
        end_time: Timestamp,
        start_time: Timestamp,
        template_ids: Type.Array(Uuid),
        users: Type.Array(UserLatency),
      }),
    ),
  }),
);
export type UserLatencyInsightsResponse = Static<typeof UserLatencyInsightsResponse>;

export const UserStatusChangeCount = named(
  'UserStatusChangeCount',
  Type.Object({
    count: Type.Integer(),
    date: Timestamp,
  }),
);
export type UserStatusChangeCount = Static<typeof UserStatusChangeCount>;

export const GetUserStatusCountsResponse = named(
  'GetUserStatusCountsResponse',
  Type.Object({
    /** By status, oldest day first. */
    status_counts: Type.Record(Type.String(), Type.Array(UserStatusChangeCount)),
  }),
);
export type GetUserStatusCountsResponse = Static<typeof GetUserStatusCountsResponse>;
