variable "zone" {
  type = string
}

variable "sizes" {
  type = map(number)
}

data "coder_parameter" "size" {
  count   = length(var.sizes) > 0 ? 1 : 0
  name    = "size_${var.zone}"
  type    = "number"
  default = min(values(var.sizes)...)

  dynamic "option" {
    for_each = var.sizes
    content {
      name  = title(option.key)
      value = option.value
    }
  }
}

output "size" {
  value = one(data.coder_parameter.size[*].value)
}
