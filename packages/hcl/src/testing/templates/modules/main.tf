variable "regions" {
  type    = map(object({ zones = list(string), label = optional(string, "unnamed") }))
  default = { eu = { zones = ["a", "b"], label = "Europe" }, us = { zones = ["c"] } }
}

locals {
  sizes = { for name, cores in { small = 2, large = 8 } : name => cores if data.coder_parameter.region.value != "us" || cores < 8 }
}

data "coder_parameter" "region" {
  name    = "region"
  default = keys(var.regions)[0]
  dynamic "option" {
    for_each = var.regions
    content {
      name  = option.value.label
      value = option.key
    }
  }
}

module "instance" {
  for_each = toset(var.regions[data.coder_parameter.region.value].zones)
  source   = "./instance"
  zone     = each.key
  sizes    = local.sizes
}

module "numbered" {
  count  = length(local.sizes)
  source = "./instance"
  zone   = "n${count.index}"
  sizes  = {}
}

data "coder_parameter" "summary" {
  name    = "summary"
  default = join(",", [for zone, made in module.instance : "${zone}=${made.size}"])
  order   = 9
}

data "coder_workspace_preset" "first" {
  name = "First"
  parameters = {
    region  = "us"
    summary = "5"
  }
}

data "coder_workspace_tags" "tags" {
  tags = { region = data.coder_parameter.region.value, numbered = length(module.numbered) }
}
