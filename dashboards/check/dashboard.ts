// What Grafana's own types say of a dashboard, tightened where they leave things open: the options of a panel are those of its
// plugin, and queries are those of the two data sources. Their enums are taken as their values, as JSON has them.
import type {
  Dashboard, DashboardLink, DataSourceRef, FieldConfig, FieldConfigSource, GridPos, RowPanel, DataTransformerConfig, VariableModel,
} from '@grafana/schema';
import type * as BarGauge from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type * as Stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as Table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as TimeSeries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

type Plain<T> = T extends string ? `${T}` : T extends Array<infer U> ? Array<Plain<U>> : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

interface Source extends DataSourceRef {
  type: 'influxdb' | 'graphite';
  uid: string;
}

type Query = { refId: string; datasource: Source } & (
  | { query: string; rawQuery: true; resultFormat: 'table'; alias?: never; target?: never }
  | { query: string; rawQuery: true; resultFormat: 'time_series'; alias: string; target?: never }
  | { target: string; textEditor: true; query?: never }
);

interface Defaults<Custom> extends Omit<FieldConfig, 'custom' | 'links'> {
  custom?: Custom;
  links?: Array<{ title: string; url: string }>;
}

interface Graph<Type extends string, Options, Custom = never> {
  id: number;
  type: Type;
  title: string;
  description: string;
  datasource: Source;
  gridPos: GridPos;
  interval?: string;
  timeFrom?: string;
  targets: Query[];
  fieldConfig: Omit<FieldConfigSource, 'defaults'> & { defaults: Defaults<Custom> };
  options: Options;
  transformations?: DataTransformerConfig[];
}

type Panel =
  | Graph<'timeseries', TimeSeries.Options, TimeSeries.FieldConfig>
  | Graph<'stat', Stat.Options>
  | Graph<'bargauge', BarGauge.Options>
  | Graph<'table', Table.Options, Table.FieldConfig>
  | (Omit<RowPanel, 'panels'> & { panels: [] });

export type Checked = Plain<
  Omit<Dashboard, 'panels' | 'templating' | 'links'> & {
    uid: string;
    title: string;
    description: string;
    links: DashboardLink[];
    panels: Panel[];
    templating: { list: VariableModel[] };
  }
>;
